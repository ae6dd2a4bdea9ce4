#include "cost/optimizer_plan.h"

#include <algorithm>
#include <numeric>

#include "lowering/memory_plan.h"

namespace trireme {
namespace {

std::int64_t Bytes(std::int64_t count, DType dtype) { return RoundUp(count * SizeOf(dtype), kPlanAlignment); }

const ParameterGroup& GroupOf(const OptimizerConfig& config, const Parameter& parameter, const ParameterTable& table) {
  switch (parameter.role) {
    case ParameterRole::kTokenTable:
    case ParameterRole::kPositionTable:
      return config.tables;
    case ParameterRole::kWeight:
      return parameter.module == table.config().modules() - 1 ? config.head : config.matrices;
    case ParameterRole::kNormGain:
    case ParameterRole::kNormBias:
    case ParameterRole::kBias:
      return config.vectors;
  }
  return config.vectors;
}

RowUpdate UpdateOf(const OptimizerConfig& config, const Parameter& parameter, const ParameterTable& table) {
  const ParameterGroup& group = GroupOf(config, parameter, table);
  RowUpdate update{.rate = group.rate,
                   .weight_decay = group.weight_decay >= 0 ? group.weight_decay
                                   : parameter.decays      ? config.weight_decay
                                                           : 0};
  const bool matrix = parameter.shape.rank() == 2;
  const OptimizerTraits& traits = TraitsOf(config.kind);
  // What a rank does not own whole is updated as under AdamW.
  if (!traits.owns_matrices || (matrix && &group == &config.matrices)) {
    update.rule = config.kind;
    update.factored = matrix && traits.factors_matrices;
    update.first_moment = traits.first_moment && (config.kind != OptimizerKind::kSgd || config.momentum > 0);
    update.second_moment = traits.second_moment && !update.factored;
  }
  return update;
}

// Rounds of consecutive buckets, then owners by FLOPs: each round's heaviest matrix goes to the rank with the least
// work so far.
void AssignOwners(MatrixPlan& plan, const ParallelLayout& layout) {
  std::vector<std::int64_t> load(static_cast<std::size_t>(layout.shards()) * static_cast<std::size_t>(layout.tensor),
                                 0);
  for (int round = 0; round < plan.rounds; ++round) {
    std::vector<OwnedMatrix*> heaviest;
    for (OwnedMatrix& matrix : plan.matrices) {
      if (matrix.round == round) {
        heaviest.push_back(&matrix);
      }
    }
    const auto flops = [](const OwnedMatrix* matrix) { return NewtonSchulzFlops(matrix->rows, matrix->columns, 1); };
    std::stable_sort(heaviest.begin(), heaviest.end(),
                     [&](const OwnedMatrix* a, const OwnedMatrix* b) { return flops(a) > flops(b); });
    for (OwnedMatrix* matrix : heaviest) {
      const auto least = std::min_element(load.begin(), load.end()) - load.begin();
      matrix->data_owner = static_cast<int>(least / layout.tensor);
      matrix->tensor_owner = static_cast<int>(least % layout.tensor);
      for (int tensor = 0; tensor < layout.tensor; ++tensor) {
        if (!matrix->cut || tensor == matrix->tensor_owner) {
          load[static_cast<std::size_t>(matrix->data_owner) * static_cast<std::size_t>(layout.tensor) +
               static_cast<std::size_t>(tensor)] += flops(matrix);
        }
      }
    }
  }
}

void SizeParts(MatrixPlan& plan, const ShardPlan& shards, const ParallelLayout& layout) {
  const auto data = static_cast<std::size_t>(layout.shards());
  const auto tensor = static_cast<std::size_t>(layout.tensor);
  const bool gathers = ZeroShards(layout.zero).optimizer && layout.shards() > 1;
  for (int round = 0; round < plan.rounds; ++round) {
    std::vector<std::int64_t> sent(data * data, 0);      // by owner, then by sender
    std::vector<std::int64_t> slices(data * tensor, 0);  // by owner
    for (OwnedMatrix& matrix : plan.matrices) {
      if (matrix.round != round) {
        continue;
      }
      const auto owner = static_cast<std::size_t>(matrix.data_owner);
      for (std::size_t sender = 0; gathers && sender < data; ++sender) {
        const OwnedRange part =
            PartOf(matrix, shards.buckets[static_cast<std::size_t>(matrix.bucket)], static_cast<int>(sender));
        sent[owner * data + sender] += std::max<std::int64_t>(part.count(), 0);
      }
      if (matrix.cut) {
        std::int64_t& slice = slices[owner * tensor + static_cast<std::size_t>(matrix.tensor_owner)];
        matrix.tensor_offset = slice;
        slice += matrix.count;
      }
    }
    plan.data_parts.push_back(*std::max_element(sent.begin(), sent.end()));
    std::vector<std::int64_t>& of_data = plan.tensor_parts.emplace_back();
    for (std::size_t rank = 0; rank < data; ++rank) {
      const auto first = slices.begin() + static_cast<std::ptrdiff_t>(rank * tensor);
      of_data.push_back(*std::max_element(first, first + static_cast<std::ptrdiff_t>(tensor)));
    }
  }
}

MatrixPlan PlanMatrices(const std::vector<RowUpdate>& updates, const ParameterTable& table, const ShardPlan& shards,
                        const ParallelLayout& layout) {
  MatrixPlan plan;
  int in_round = 0;
  for (std::size_t i = 0; i < shards.buckets.size(); ++i) {
    for (const BucketEntry& entry : shards.buckets[i].entries) {
      if (shards.buckets[i].frozen || !TraitsOf(updates[static_cast<std::size_t>(entry.row)].rule).owns_matrices) {
        continue;
      }
      const Parameter& parameter = table.rows()[static_cast<std::size_t>(entry.row)];
      plan.rounds = std::max(plan.rounds, 1);
      plan.matrices.push_back({.row = entry.row,
                               .bucket = static_cast<int>(i),
                               .offset = entry.offset,
                               .count = entry.count,
                               .rows = parameter.shape[0],
                               .columns = parameter.shape[1],
                               .cut = layout.tensor > 1 && !parameter.split.replicated(),
                               .round = plan.rounds - 1});
      ++in_round;
    }
    const bool more = std::any_of(
        shards.buckets.begin() + static_cast<std::ptrdiff_t>(i) + 1, shards.buckets.end(), [&](const Bucket& bucket) {
          return !bucket.frozen &&
                 std::any_of(bucket.entries.begin(), bucket.entries.end(), [&](const BucketEntry& entry) {
                   return TraitsOf(updates[static_cast<std::size_t>(entry.row)].rule).owns_matrices;
                 });
        });
    if (more && in_round >= layout.tensor * layout.shards()) {
      ++plan.rounds;
      in_round = 0;
    }
  }
  AssignOwners(plan, layout);
  SizeParts(plan, shards, layout);
  return plan;
}

}  // namespace

std::int64_t MatrixPlan::LargestDataPart() const {
  return data_parts.empty() ? 0 : *std::max_element(data_parts.begin(), data_parts.end());
}

std::int64_t MatrixPlan::LargestTensorPart() const {
  std::int64_t largest = 0;
  for (const std::vector<std::int64_t>& parts : tensor_parts) {
    largest = std::max(largest, *std::max_element(parts.begin(), parts.end()));
  }
  return largest;
}

OwnedRange PartOf(const OwnedMatrix& matrix, const Bucket& bucket, int data) {
  const OwnedRange owned = OwnedBy(bucket, data);
  const std::int64_t first = std::max(matrix.offset, owned.first);
  return {.first = first, .last = std::max(first, std::min(matrix.offset + matrix.count, owned.last))};
}

std::int64_t NewtonSchulzFlops(std::int64_t rows, std::int64_t columns, int iterations) {
  const std::int64_t small = std::min(rows, columns);
  const std::int64_t large = std::max(rows, columns);
  return iterations * (4 * small * small * large + 2 * small * small * small);
}

std::int64_t NewtonSchulzBytes(std::int64_t rows, std::int64_t columns, DType dtype) {
  const std::int64_t small = std::min(rows, columns);
  const std::int64_t matrix = rows * columns;
  const std::int64_t square = small * small;
  // The matrix and its square, each as an operand and as an fp32 product; see optim/newton_schulz.cc.
  return Bytes(matrix, DType::kFloat32) + Bytes(square, DType::kFloat32) + Bytes(matrix, dtype) + Bytes(square, dtype);
}

std::vector<RowUpdate> UpdatesOf(const OptimizerConfig& config, const ParameterTable& table) {
  std::vector<RowUpdate> updates;
  for (const Parameter& parameter : table.rows()) {
    updates.push_back(UpdateOf(config, parameter, table));
  }
  return updates;
}

OptimizerPlan::OptimizerPlan(const OptimizerConfig& config, DType working, const ParameterTable& table,
                             const ShardPlan& shards, const ParallelLayout& layout)
    : rows(UpdatesOf(config, table)) {
  if (TraitsOf(config.kind).owns_matrices) {
    matrices = PlanMatrices(rows, table, shards, layout);
    const bool half = config.muon_type == MuonType::kBFloat16 ||
                      (config.muon_type == MuonType::kAutomatic && working != DType::kFloat32);
    matrices.dtype = half ? DType::kBFloat16 : DType::kFloat32;
    matrices.iterations = config.muon_iterations;
    for (const OwnedMatrix& matrix : matrices.matrices) {
      matrices.largest_matrix = std::max(matrices.largest_matrix, matrix.rows * matrix.columns);
      matrices.workspace = std::max(matrices.workspace, NewtonSchulzBytes(matrix.rows, matrix.columns, matrices.dtype));
    }
  }
  if (TraitsOf(config.kind).factors_matrices) {
    for (const Bucket& bucket : shards.buckets) {
      for (const BucketEntry& entry : bucket.entries) {
        if (bucket.frozen) {
          continue;
        }
        const Shape& shape = table.rows()[static_cast<std::size_t>(entry.row)].shape;
        if (rows[static_cast<std::size_t>(entry.row)].factored) {
          factor_count += shape[0] + shape[1];
          work_count += std::max(shape[0], entry.shape[0]) + std::max(shape[1], entry.shape[1]);
        }
        ++parameter_count;
      }
    }
  }
}

MomentLayout OptimizerPlan::Moments(const Bucket& bucket, bool second, int zero, const OwnedRange& owned) const {
  MomentLayout layout;
  if (bucket.frozen) {
    layout.offsets.assign(bucket.entries.size(), -1);
    return layout;
  }
  const auto keeps = [&](const BucketEntry& entry) {
    const RowUpdate update = Of(entry.row);
    return second ? update.second_moment : update.first_moment;
  };
  const auto kept = std::count_if(bucket.entries.begin(), bucket.entries.end(), keeps);
  const auto part = [](const BucketEntry& entry, const OwnedRange& range) {
    const std::int64_t first = std::max(entry.offset, range.first);
    return std::max<std::int64_t>(std::min(entry.offset + entry.count, range.last) - first, 0);
  };
  if (rows.empty() || kept == static_cast<std::ptrdiff_t>(bucket.entries.size())) {
    layout.count = OwnedCount(bucket, zero);
    for (const BucketEntry& entry : bucket.entries) {
      layout.offsets.push_back(std::max<std::int64_t>(entry.offset - owned.first, 0));
    }
    return layout;
  }
  std::int64_t next = 0;
  for (const BucketEntry& entry : bucket.entries) {
    layout.offsets.push_back(keeps(entry) ? next : -1);
    next += keeps(entry) ? RoundUp(part(entry, owned), kBucketUnit) : 0;
  }
  const std::int64_t shards = ZeroShards(zero).optimizer ? bucket.count / bucket.shard : 1;
  for (std::int64_t rank = 0; rank < shards; ++rank) {
    const OwnedRange range = shards == 1 ? OwnedRange{0, bucket.count} : OwnedBy(bucket, static_cast<int>(rank));
    std::int64_t count = 0;
    for (const BucketEntry& entry : bucket.entries) {
      count += keeps(entry) ? RoundUp(part(entry, range), kBucketUnit) : 0;
    }
    layout.count = std::max(layout.count, count);
  }
  return layout;
}

std::int64_t OptimizerPlan::ExtraBytes(const ParallelLayout& layout) const {
  std::int64_t bytes = 0;
  if (!matrices.matrices.empty()) {
    bytes += matrices.workspace + Bytes(1, DType::kFloat32) + Bytes(matrices.largest_matrix, DType::kFloat32);
    bytes += 2 * Bytes(layout.shards() * matrices.LargestDataPart(), DType::kFloat32);
    bytes += 2 * Bytes(layout.tensor * matrices.LargestTensorPart(), DType::kFloat32);
  }
  if (parameter_count > 0) {
    // Factored moments, this step's sums and factors, and two sums of squares of each parameter.
    bytes += Bytes(factor_count, DType::kFloat32) + Bytes(work_count, DType::kFloat32) +
             Bytes(2 * parameter_count, DType::kFloat32);
  }
  return bytes;
}

void OptimizerPlan::AddTraffic(const ParallelLayout& layout, int data_rank, Traffic& tensor, Traffic& data) const {
  const bool sharded = ZeroShards(layout.zero).optimizer;
  for (int round = 0; round < matrices.rounds; ++round) {
    const std::int64_t data_part = matrices.data_parts[static_cast<std::size_t>(round)];
    if (data_part > 0) {
      data.Add(CollectiveKind::kAllToAll, layout.shards() * data_part * 4, 2);
    }
    const std::int64_t tensor_part =
        matrices.tensor_parts[static_cast<std::size_t>(round)][static_cast<std::size_t>(data_rank)];
    if (tensor_part > 0) {
      tensor.Add(CollectiveKind::kAllToAll, layout.tensor * tensor_part * 4, 2);
    }
  }
  for (const OwnedMatrix& matrix : matrices.matrices) {
    if (!sharded && layout.shards() > 1) {
      data.Add(CollectiveKind::kBroadcast, matrix.count * 4);
    }
  }
  for (const std::int64_t count : {work_count, 2 * parameter_count}) {
    if (count > 0 && sharded && layout.shards() > 1) {
      data.Add(CollectiveKind::kAllReduce, count * 4);
    }
    if (count > 0 && layout.tensor > 1) {
      tensor.Add(CollectiveKind::kAllReduce, count * 4);
    }
  }
}

std::int64_t OptimizerPlan::Flops(int data_rank, int tensor_rank) const {
  std::int64_t flops = 0;
  for (const OwnedMatrix& matrix : matrices.matrices) {
    if (matrix.data_owner == data_rank && (!matrix.cut || matrix.tensor_owner == tensor_rank)) {
      flops += NewtonSchulzFlops(matrix.rows, matrix.columns, matrices.iterations);
    }
  }
  return flops;
}

}  // namespace trireme
