#include "train/histograms.h"

#include <limits>
#include <span>

namespace trireme {
namespace {

// Sums of a row, besides its buckets.
constexpr std::int64_t kRowSums = 3;
constexpr float kNoValue = std::numeric_limits<float>::lowest();

// This rank's part of each row.
std::vector<Histogram> CountOwned(Device& device, const std::vector<OwnedState>& states, std::size_t rows,
                                  double factor) {
  std::vector<Histogram> own(rows);
  std::vector<float> values;
  for (const OwnedState& state : states) {
    if (state.kind != StateKind::kMaster || !state.saved) {
      continue;
    }
    values.resize(static_cast<std::size_t>(state.values.count()));
    CopyValues(device, state.values, values.data());
    for (const SliceRun& run : state.runs) {
      own[static_cast<std::size_t>(state.row)].Add(
          std::span(values).subspan(static_cast<std::size_t>(run.local), static_cast<std::size_t>(run.count)), factor);
    }
  }
  return own;
}

// `values` of all ranks, summed or the greatest. Sums of counts are exact below 2^24.
void Combine(Communicator& world, Device& device, std::vector<float>& values, ReduceOp op) {
  const Tensor tensor{device.Allocate(static_cast<std::int64_t>(values.size()) * 4),
                      DType::kFloat32,
                      {static_cast<std::int64_t>(values.size())}};
  device.CopyFromHost(tensor.data, values.data(), tensor.bytes());
  world.AllReduce(tensor, op);
  device.CopyToHost(values.data(), tensor.data, tensor.bytes());
  device.Free(tensor.data);
}

std::vector<Histogram> CountAll(RankParts& parts, const std::vector<OwnedState>& states, double factor) {
  const std::size_t rows = parts.table().rows().size();
  std::vector<Histogram> whole = CountOwned(parts.device(), states, rows, factor);
  const std::size_t width = Histogram::Edges().size() + kRowSums;
  std::vector<float> sums;
  std::vector<float> most;
  sums.reserve(rows * width);
  for (const Histogram& own : whole) {
    sums.insert(sums.end(), own.counts().begin(), own.counts().end());
    sums.insert(sums.end(),
                {static_cast<float>(own.sum), static_cast<float>(own.squares), static_cast<float>(own.others)});
    most.push_back(own.count > 0 ? static_cast<float>(own.most) : kNoValue);
    most.push_back(own.count > 0 ? static_cast<float>(-own.least) : kNoValue);
  }
  Combine(parts.world(), parts.device(), sums, ReduceOp::kSum);
  Combine(parts.world(), parts.device(), most, ReduceOp::kMax);
  for (std::size_t row = 0; row < rows; ++row) {
    Histogram& one = whole[row];
    const float* const from = sums.data() + row * width;
    one.count = 0;
    for (std::size_t bucket = 0; bucket < one.counts().size(); ++bucket) {
      one.counts()[bucket] = static_cast<std::int64_t>(from[bucket]);
      one.count += one.counts()[bucket];
    }
    one.sum = from[one.counts().size()];
    one.squares = from[one.counts().size() + 1];
    one.others = static_cast<std::int64_t>(from[one.counts().size() + 2]);
    one.most = one.count > 0 ? most[2 * row] : 0;
    one.least = one.count > 0 ? -most[2 * row + 1] : 0;
  }
  return whole;
}

}  // namespace

std::vector<Histogram> HistogramsOfGradients(RankParts& parts, double factor) {
  return CountAll(parts, parts.zero().OwnedGradients(), factor);
}

std::vector<Histogram> HistogramsOfWeights(RankParts& parts) { return CountAll(parts, parts.zero().JoinState(), 1); }

}  // namespace trireme
