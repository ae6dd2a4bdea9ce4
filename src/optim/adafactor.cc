#include "optim/adafactor.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trireme {
namespace {

constexpr double kDecayExponent = -0.8;
constexpr double kLeastScale = 1e-3;       // of a parameter's root mean square
constexpr double kLargestDirection = 1.0;  // root mean square of a direction
constexpr double kLargestRelativeStep = 1e-2;

std::vector<float> OnHost(Device& device, const Tensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.count()));
  if (!values.empty()) {
    device.CopyToHost(values.data(), tensor.data, tensor.bytes());
  }
  return values;
}

void ToDevice(Device& device, const Tensor& tensor, const float* values) {
  if (tensor.count() > 0) {
    device.CopyFromHost(tensor.data, values, tensor.bytes());
  }
}

}  // namespace

Adafactor::Adafactor(Arena& arena, GridComms& comms, const OptimizerPlan& plan, const ShardedState& sharded,
                     const std::vector<OwnedShard>& shards, const AdafactorOptions& options)
    : device_(arena.device()),
      ops_(arena.device().ops()),
      comms_(comms),
      sharded_(sharded),
      options_(options),
      scales_(sharded.table.rows().size()) {
  const auto take = [&](std::int64_t count) {
    return arena.Allocate(MemoryKind::kOptimizer, DType::kFloat32, {count});
  };
  const Tensor factors = take(plan.factor_count);
  work_ = take(plan.work_count);
  squares_ = take(2 * plan.parameter_count);
  ops_.Fill(factors, 0);
  std::int64_t next = 0;
  std::int64_t work = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (sharded.shards.buckets[i].frozen) {
      continue;
    }
    for (const BucketEntry& entry : sharded.shards.buckets[i].entries) {
      const Parameter& parameter = sharded.table.rows()[static_cast<std::size_t>(entry.row)];
      Part part{.row = entry.row, .local = entry.shape, .gradient = {}, .weight = {}, .work = work};
      part.counted = !parameter.split.replicated() || comms.coordinate().tensor == 0;
      for (const UpdatedRange& range : shards[i].ranges) {
        if (range.row == entry.row) {
          part.gradient = shards[i].gradient.Range(range.first, range.count);
          part.weight = shards[i].weight.Range(range.first, range.count);
          part.first = range.slice_first;
        }
      }
      if (plan.Of(entry.row).factored) {
        part.factored = static_cast<int>(moments_.size());
        const std::int64_t rows = parameter.shape[0];
        const std::int64_t columns = parameter.shape[1];
        moments_.push_back(
            {.row = entry.row, .rows = factors.Range(next, rows), .columns = factors.Range(next + rows, columns)});
        next += rows + columns;
        work += std::max(rows, entry.shape[0]) + std::max(columns, entry.shape[1]);
      }
      parts_.push_back(part);
    }
  }
}

float Adafactor::SecondBeta(std::int64_t step) {
  return static_cast<float>(1.0 - std::pow(static_cast<double>(step), kDecayExponent));
}

float Adafactor::Rate(float scheduled, std::int64_t step) const {
  return options_.relative_step
             ? static_cast<float>(std::min(kLargestRelativeStep, 1.0 / std::sqrt(static_cast<double>(step))))
             : scheduled;
}

void Adafactor::MakeDirections(float gradient_scale, std::int64_t step) {
  SumSquares(gradient_scale);
  UpdateFactors(gradient_scale, step);
  MeasureDirections();
}

void Adafactor::ReduceOverStage(const Tensor& numbers) {
  if (numbers.count() == 0) {
    return;
  }
  if (ZeroShards(sharded_.zero).optimizer) {
    comms_.shards().AllReduce(numbers);
  }
  comms_.tensor().AllReduce(numbers);
}

std::vector<std::int64_t> Adafactor::GlobalIndices(const Part& part, int dim) const {
  const Parameter& parameter = sharded_.table.rows()[static_cast<std::size_t>(part.row)];
  std::vector<std::int64_t> indices(static_cast<std::size_t>(part.local[dim]));
  if (parameter.split.dim != dim) {
    std::iota(indices.begin(), indices.end(), std::int64_t{0});
    return indices;
  }
  std::fill(indices.begin(), indices.end(), -1);
  const int tensor = comms_.tensor().size();
  const int rank = comms_.coordinate().tensor;
  std::int64_t local = 0;
  std::int64_t global = 0;
  for (const std::int64_t segment : parameter.split.segments) {
    const std::int64_t share = parameter.split.padded ? part.local[dim] : segment / tensor;
    for (std::int64_t i = 0; i < share; ++i) {
      const std::int64_t at = share * rank + i;
      indices[static_cast<std::size_t>(local + i)] = at < segment ? global + at : -1;
    }
    local += share;
    global += segment;
  }
  return indices;
}

// Each rank sums the part that it owns; the sums of all make those of the whole matrix.
void Adafactor::SumSquares(float gradient_scale) {
  if (work_.count() == 0) {
    return;
  }
  std::vector<float> sums(static_cast<std::size_t>(work_.count()), 0.0F);
  for (const Part& part : parts_) {
    if (part.factored < 0 || !part.counted || part.gradient.count() == 0) {
      continue;
    }
    const Tensor rows = work_.Range(part.work, part.local[0]);
    const Tensor columns = work_.Range(part.work + part.local[0], part.local[1]);
    ops_.SumSquaresByAxis({.values = part.gradient,
                           .first = part.first,
                           .columns = part.local[1],
                           .rows = rows,
                           .column_values = columns},
                          gradient_scale);
    std::int64_t base = part.work;
    for (const auto& [dim, values] : {std::pair{0, OnHost(device_, rows)}, std::pair{1, OnHost(device_, columns)}}) {
      const std::vector<std::int64_t> indices = GlobalIndices(part, dim);
      for (std::size_t i = 0; i < indices.size(); ++i) {
        if (indices[i] >= 0) {
          sums[static_cast<std::size_t>(base + indices[i])] += values[i];
        }
      }
      base += sharded_.table.rows()[static_cast<std::size_t>(part.row)].shape[0];
    }
  }
  ToDevice(device_, work_, sums.data());
  ReduceOverStage(work_);
}

void Adafactor::UpdateFactors(float gradient_scale, std::int64_t step) {
  const double beta = SecondBeta(step);
  const std::vector<float> sums = OnHost(device_, work_);
  std::vector<float> factors(sums.size(), 0.0F);
  for (const Part& part : parts_) {
    if (part.factored < 0) {
      continue;
    }
    const FactoredMoments& moments = moments_[static_cast<std::size_t>(part.factored)];
    std::array<std::vector<float>, 2> updated = {OnHost(device_, moments.rows), OnHost(device_, moments.columns)};
    const std::array<double, 2> lengths = {static_cast<double>(moments.columns.count()),
                                           static_cast<double>(moments.rows.count())};
    std::size_t at = static_cast<std::size_t>(part.work);
    double mean = 0;
    for (std::size_t dim = 0; dim < 2; ++dim) {
      for (float& value : updated[dim]) {
        value = static_cast<float>(beta * value + (1 - beta) * (sums[at++] / lengths[dim] + kSquareEpsilon));
        mean += dim == 0 ? value / lengths[1] : 0;
      }
    }
    ToDevice(device_, moments.rows, updated[0].data());
    ToDevice(device_, moments.columns, updated[1].data());
    at = static_cast<std::size_t>(part.work);
    for (int dim = 0; dim < 2; ++dim) {
      for (const std::int64_t index : GlobalIndices(part, dim)) {
        const double value = index < 0 ? 0 : updated[static_cast<std::size_t>(dim)][static_cast<std::size_t>(index)];
        factors[at++] = index < 0 ? 0.0F : static_cast<float>(1.0 / std::sqrt(dim == 0 ? value / mean : value));
      }
    }
  }
  ToDevice(device_, work_, factors.data());
  for (const Part& part : parts_) {
    if (part.factored >= 0 && part.gradient.count() > 0) {
      ops_.ScaleByAxis({.values = part.gradient,
                        .first = part.first,
                        .columns = part.local[1],
                        .rows = work_.Range(part.work, part.local[0]),
                        .column_values = work_.Range(part.work + part.local[0], part.local[1])},
                       gradient_scale);
    }
  }
}

void Adafactor::MeasureDirections() {
  const std::size_t count = parts_.size();
  std::vector<Tensor> directions;
  std::vector<Tensor> weights;
  for (const Part& part : parts_) {
    directions.push_back(part.gradient.given() ? part.gradient : Tensor{squares_.data, DType::kFloat32, {0}});
    weights.push_back(part.weight.given() ? part.weight : Tensor{squares_.data, parts_.front().weight.dtype, {0}});
  }
  // Empty ranges need the type of the others.
  const auto typed = std::find_if(parts_.begin(), parts_.end(), [](const Part& part) { return part.weight.given(); });
  for (Tensor& weight : weights) {
    weight.dtype = typed == parts_.end() ? DType::kFloat32 : typed->weight.dtype;
  }
  const auto half = static_cast<std::int64_t>(count);
  ops_.SumOfSquares(directions, squares_.Range(0, half));
  ops_.SumOfSquares(weights, squares_.Range(half, half));
  std::vector<float> squares = OnHost(device_, squares_);
  for (std::size_t i = 0; i < count; ++i) {
    if (!parts_[i].counted) {
      squares[i] = squares[count + i] = 0;
    }
  }
  ToDevice(device_, squares_, squares.data());
  ReduceOverStage(squares_);
  squares = OnHost(device_, squares_);
  for (std::size_t i = 0; i < count; ++i) {
    const auto row = static_cast<std::size_t>(parts_[i].row);
    const auto elements = static_cast<double>(sharded_.table.rows()[row].shape.count());
    const double direction = std::sqrt(squares[i] / elements);
    const double weight = std::sqrt(squares[count + i] / elements);
    scales_[row] = {.rate = options_.scale_parameter ? static_cast<float>(std::max(weight, kLeastScale)) : 1.0F,
                    .direction = static_cast<float>(1.0 / std::max(1.0, direction / kLargestDirection))};
  }
}

}  // namespace trireme
