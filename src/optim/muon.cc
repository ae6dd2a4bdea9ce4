#include "optim/muon.h"

#include "lowering/memory_plan.h"
#include "optim/newton_schulz.h"

namespace trireme {

Muon::Muon(Arena& arena, GridComms& comms, const OptimizerPlan& plan, const ShardedState& sharded,
           const std::vector<OwnedShard>& shards)
    : comms_(comms),
      device_(arena.device()),
      ops_(arena.device().ops()),
      plan_(plan.matrices),
      sharded_(sharded),
      shards_(shards),
      here_(comms.coordinate()),
      gathers_(ZeroShards(sharded.zero).optimizer && comms.shards().size() > 1) {
  here_.data = comms.shard_rank();
  const auto take = [&](std::int64_t count) {
    return arena.Allocate(MemoryKind::kOptimizer, DType::kFloat32, {count});
  };
  workspace_ = arena.Allocate(MemoryKind::kOptimizer, DType::kUInt8, {plan_.workspace});
  whole_ = take(plan_.largest_matrix);
  sum_ = take(1);
  const std::int64_t data = comms_.shards().size() * plan_.LargestDataPart();
  const std::int64_t tensor = comms_.tensor().size() * plan_.LargestTensorPart();
  data_out_ = take(data);
  data_in_ = take(data);
  tensor_out_ = take(tensor);
  tensor_in_ = take(tensor);
}

void Muon::Orthogonalise() {
  for (int round = 0; round < plan_.rounds; ++round) {
    Gather(round);
    Compute(round);
    Scatter(round);
  }
}

Tensor Muon::OwnPart(const OwnedMatrix& matrix) const {
  const Bucket& bucket = sharded_.shards.buckets[static_cast<std::size_t>(matrix.bucket)];
  const Tensor& gradient = shards_[static_cast<std::size_t>(matrix.bucket)].gradient;
  if (!ZeroShards(sharded_.zero).optimizer) {
    return gradient.Range(matrix.offset, matrix.count);
  }
  const OwnedRange part = PartOf(matrix, bucket, here_.data);
  return gradient.Range(part.first - OwnedBy(bucket, here_.data).first, part.count());
}

template <typename Visit>
void Muon::ForEachPart(int round, Visit visit) const {
  const int data = comms_.shards().size();
  for (int rank = 0; rank < data; ++rank) {
    std::vector<std::int64_t> next(static_cast<std::size_t>(data), 0);  // by owner
    for (const OwnedMatrix& matrix : plan_.matrices) {
      if (matrix.round != round) {
        continue;
      }
      const OwnedRange part = PartOf(matrix, sharded_.shards.buckets[static_cast<std::size_t>(matrix.bucket)], rank);
      std::int64_t& offset = next[static_cast<std::size_t>(matrix.data_owner)];
      if (part.count() > 0) {
        visit(matrix, rank, OwnedRange{part.first - matrix.offset, part.last - matrix.offset}, offset);
      }
      offset += part.count();
    }
  }
}

Tensor Muon::SliceOf(const OwnedMatrix& matrix) const {
  if (!matrix.cut) {
    return whole_.Range(0, matrix.count);
  }
  const std::int64_t part =
      plan_.tensor_parts[static_cast<std::size_t>(matrix.round)][static_cast<std::size_t>(here_.data)];
  return tensor_out_.Range(matrix.tensor_owner * part + matrix.tensor_offset, matrix.count);
}

void Muon::Gather(int round) {
  const std::int64_t data_part = plan_.data_parts[static_cast<std::size_t>(round)];
  const int data = comms_.shards().size();
  if (gathers_ && data_part > 0) {
    ForEachPart(round, [&](const OwnedMatrix& matrix, int rank, const OwnedRange& part, std::int64_t offset) {
      if (rank == here_.data) {
        ops_.Copy(data_out_.Range(matrix.data_owner * data_part + offset, part.count()), OwnPart(matrix));
      }
    });
    comms_.shards().AllToAll(data_out_.Range(0, data * data_part), data_in_.Range(0, data * data_part));
  }
  const std::int64_t tensor_part =
      plan_.tensor_parts[static_cast<std::size_t>(round)][static_cast<std::size_t>(here_.data)];
  if (tensor_part == 0) {
    return;
  }
  for (const OwnedMatrix& matrix : plan_.matrices) {
    if (matrix.round == round && matrix.cut && matrix.data_owner == here_.data && !gathers_) {
      ops_.Copy(SliceOf(matrix), OwnPart(matrix));
    }
  }
  if (gathers_) {
    ForEachPart(round, [&](const OwnedMatrix& matrix, int rank, const OwnedRange& part, std::int64_t offset) {
      if (matrix.cut && matrix.data_owner == here_.data) {
        ops_.Copy(SliceOf(matrix).Range(part.first, part.count()),
                  data_in_.Range(rank * data_part + offset, part.count()));
      }
    });
  }
  const std::int64_t count = comms_.tensor().size() * tensor_part;
  comms_.tensor().AllToAll(tensor_out_.Range(0, count), tensor_in_.Range(0, count));
}

void Muon::MoveSlice(const OwnedMatrix& matrix, int tensor, const Tensor& slice, bool back) {
  const Parameter& parameter = sharded_.table.rows()[static_cast<std::size_t>(matrix.row)];
  const std::int64_t degree = comms_.tensor().size();
  const std::int64_t local_columns = parameter.split.dim == 1 ? matrix.columns / degree : matrix.columns;
  std::int64_t whole_first = 0;
  std::int64_t local_first = 0;
  for (const std::int64_t segment : parameter.split.segments) {
    const std::int64_t share = segment / degree;
    const bool by_rows = parameter.split.dim == 0;
    const std::int64_t rows = by_rows ? share : matrix.rows;
    const std::int64_t columns = by_rows ? matrix.columns : share;
    const std::int64_t at = whole_first + tensor * share;
    const std::int64_t in_whole = by_rows ? at * matrix.columns : at;
    const std::int64_t in_slice = by_rows ? local_first * matrix.columns : local_first;
    BlockCopy copy{.to = whole_.Range(in_whole, whole_.count() - in_whole),
                   .from = slice.Range(in_slice, slice.count() - in_slice),
                   .rows = rows,
                   .columns = columns,
                   .to_stride = matrix.columns,
                   .from_stride = local_columns};
    if (back) {
      std::swap(copy.to, copy.from);
      std::swap(copy.to_stride, copy.from_stride);
    }
    ops_.CopyBlocks(copy);
    whole_first += segment;
    local_first += share;
  }
}

void Muon::Compute(int round) {
  const std::int64_t data_part = plan_.data_parts[static_cast<std::size_t>(round)];
  const std::int64_t tensor_part =
      plan_.tensor_parts[static_cast<std::size_t>(round)][static_cast<std::size_t>(here_.data)];
  for (const OwnedMatrix& matrix : plan_.matrices) {
    if (matrix.round != round || matrix.data_owner != here_.data ||
        (matrix.cut && matrix.tensor_owner != here_.tensor)) {
      continue;
    }
    const auto slice = [&](int tensor) {
      return tensor_in_.Range(tensor * tensor_part + matrix.tensor_offset, matrix.count);
    };
    const auto move_whole = [&](bool back) {
      const auto copy = [&](const Tensor& inside, const Tensor& outside) {
        back ? ops_.Copy(outside, inside) : ops_.Copy(inside, outside);
      };
      if (matrix.cut) {
        for (int tensor = 0; tensor < comms_.tensor().size(); ++tensor) {
          MoveSlice(matrix, tensor, slice(tensor), back);
        }
      } else if (gathers_) {
        ForEachPart(round, [&](const OwnedMatrix& other, int rank, const OwnedRange& part, std::int64_t offset) {
          if (&other == &matrix) {
            copy(whole_.Range(part.first, part.count()), data_in_.Range(rank * data_part + offset, part.count()));
          }
        });
      } else {
        copy(whole_.Range(0, matrix.count), OwnPart(matrix));
      }
    };
    move_whole(false);
    NewtonSchulz(device_,
                 {.matrix = whole_.Range(0, matrix.rows * matrix.columns).Reshaped({matrix.rows, matrix.columns}),
                  .workspace = workspace_,
                  .sum = sum_,
                  .dtype = plan_.dtype,
                  .iterations = plan_.iterations});
    move_whole(true);
  }
}

void Muon::Scatter(int round) {
  const std::int64_t data_part = plan_.data_parts[static_cast<std::size_t>(round)];
  const std::int64_t tensor_part =
      plan_.tensor_parts[static_cast<std::size_t>(round)][static_cast<std::size_t>(here_.data)];
  if (tensor_part > 0) {
    const std::int64_t count = comms_.tensor().size() * tensor_part;
    comms_.tensor().AllToAll(tensor_in_.Range(0, count), tensor_out_.Range(0, count));
  }
  if (gathers_ && data_part > 0) {
    ForEachPart(round, [&](const OwnedMatrix& matrix, int rank, const OwnedRange& part, std::int64_t offset) {
      if (matrix.cut && matrix.data_owner == here_.data) {
        ops_.Copy(data_in_.Range(rank * data_part + offset, part.count()),
                  SliceOf(matrix).Range(part.first, part.count()));
      }
    });
    const std::int64_t count = comms_.shards().size() * data_part;
    comms_.shards().AllToAll(data_in_.Range(0, count), data_out_.Range(0, count));
    ForEachPart(round, [&](const OwnedMatrix& matrix, int rank, const OwnedRange& part, std::int64_t offset) {
      if (rank == here_.data) {
        ops_.Copy(OwnPart(matrix), data_out_.Range(matrix.data_owner * data_part + offset, part.count()));
      }
    });
    return;
  }
  for (const OwnedMatrix& matrix : plan_.matrices) {
    if (matrix.round != round) {
      continue;
    }
    if (matrix.cut && matrix.data_owner == here_.data) {
      ops_.Copy(OwnPart(matrix), SliceOf(matrix));
    }
    if (comms_.shards().size() > 1) {
      comms_.shards().Broadcast(OwnPart(matrix), matrix.data_owner);
    }
  }
}

}  // namespace trireme
