#include <vector>

#include "base/random.h"
#include "train/zero_shard.h"

namespace trireme {
namespace {

// Runs of one length, one after another in what a rank holds and at equal distances in the parameter: those of a
// column cut are all of its rows.
struct RunRows {
  SliceRun first;
  std::int64_t rows = 1;
  std::int64_t stride = 0;  // between the `global` of neighbours

  bool Take(const SliceRun& next) {
    const std::int64_t distance = next.global - (first.global + (rows - 1) * stride);
    if (next.count != first.count || next.local != first.local + rows * first.count ||
        (rows > 1 && distance != stride)) {
      return false;
    }
    stride = distance;
    ++rows;
    return true;
  }
};

std::vector<RunRows> RowsOf(const std::vector<SliceRun>& runs) {
  std::vector<RunRows> all;
  for (const SliceRun& run : runs) {
    if (all.empty() || !all.back().Take(run)) {
      all.push_back({.first = run});
    }
  }
  return all;
}

void Draw(Ops& ops, const Parameter& parameter, std::uint64_t seed, const OwnedState& state) {
  ops.Fill(state.values, 0);  // padding stays so
  if (parameter.initializer == Initializer::kZero) {
    return;
  }
  const std::uint64_t key = RandomKey(seed, parameter.name);
  for (const RunRows& part : RowsOf(state.runs)) {
    const SliceRun& first = part.first;
    Tensor values = state.values.Range(first.local, part.rows * first.count);
    if (parameter.initializer == Initializer::kOne) {
      ops.Fill(values, 1);
      continue;
    }
    values.shape = {part.rows, first.count};
    ops.DrawNormal(values, {.key = key,
                            .first_element = first.global,
                            .stride = part.stride,
                            .deviation = static_cast<float>(parameter.deviation)});
  }
}

}  // namespace

void ZeroShard::DrawInitialWeights(std::uint64_t seed) {
  for (const OwnedState& state : State()) {
    if (state.kind == StateKind::kMaster) {
      Draw(device_.ops(), table_.rows()[static_cast<std::size_t>(state.row)], seed, state);
    }
  }
  Publish();
}

}  // namespace trireme
