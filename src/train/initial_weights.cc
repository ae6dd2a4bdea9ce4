#include <algorithm>
#include <cassert>
#include <functional>
#include <memory>

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

// Draws values of another type, a part that `side` holds at a time.
void DrawNarrow(Ops& ops, const Parameter& parameter, std::uint64_t seed, const OwnedState& state, const Tensor& side) {
  ops.Fill(state.values, 0);
  for (const SliceRun& run : state.runs) {
    for (std::int64_t first = 0; first < run.count; first += side.count()) {
      OwnedState part = state;
      const std::int64_t count = std::min(side.count(), run.count - first);
      part.values = side.Range(0, count);
      part.runs = {{.local = 0, .global = run.global + first, .count = count}};
      Draw(ops, parameter, seed, part);
      ops.Copy(state.values.Range(run.local + first, count), part.values);
    }
  }
}

}  // namespace

void ZeroShard::DrawInitialWeights(std::uint64_t seed) {
  // Numbers are drawn in fp32: those of frozen weights of another type some at a time, on the side.
  constexpr std::int64_t kSideElements = std::int64_t{1} << 20;
  std::unique_ptr<void, std::function<void(void*)>> side;
  for (const OwnedState& state : JoinState()) {
    if (state.kind != StateKind::kMaster) {
      continue;
    }
    const Parameter& parameter = table_.rows()[static_cast<std::size_t>(state.row)];
    if (state.values.dtype == DType::kFloat32) {
      Draw(ops_, parameter, seed, state);
      continue;
    }
    if (side == nullptr) {
      side = {device_.Allocate(kSideElements * SizeOf(DType::kFloat32)), [this](void* memory) {
                device_.Synchronize();
                device_.Free(memory);
              }};
    }
    DrawNarrow(ops_, parameter, seed, state, {side.get(), DType::kFloat32, {kSideElements}});
  }
  Publish();
}

}  // namespace trireme
