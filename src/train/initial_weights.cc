#include <cassert>

#include "base/random.h"
#include "checkpoint/format/slice_pieces.h"
#include "train/zero_shard.h"

namespace trireme {
namespace {

void Draw(Ops& ops, const Parameter& parameter, std::uint64_t seed, const OwnedState& state) {
  ops.Fill(state.values, 0);  // padding stays so
  if (parameter.initializer == Initializer::kZero) {
    return;
  }
  const std::uint64_t key = RandomKey(seed, parameter.name);
  // Runs follow each other in what a rank holds.
  std::int64_t local = state.runs.empty() ? 0 : state.runs.front().local;
  for (const SlicePiece& piece : PiecesOf(state.runs)) {
    Tensor values = state.values.Range(local, piece.times * piece.count);
    local += values.count();
    if (parameter.initializer == Initializer::kOne) {
      ops.Fill(values, 1);
      continue;
    }
    values.shape = {piece.times, piece.count};
    ops.DrawNormal(values, {.key = key,
                            .first_element = piece.first,
                            .stride = piece.stride,
                            .deviation = static_cast<float>(parameter.deviation)});
  }
  assert(state.runs.empty() || local == state.runs.back().local + state.runs.back().count);
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
