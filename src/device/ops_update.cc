// Checks of what makes a step's update: norms of gradients, AdamW, halves of masters, sums of ranks.
#include "base/error.h"
#include "device/checks.h"
#include "device/ops.h"

namespace trireme {
namespace {

constexpr DType kFloat = DType::kFloat32;
constexpr DType kHalves = DType::kUInt16;

void CheckHalves(const char* operation, const Tensor& high, const Tensor& low, const Tensor& whole) {
  const std::int64_t count = whole.shape.count();
  RequireVector({operation, "whole", whole}, count, kFloat);
  RequireVector({operation, "high", high}, count, DType::kBFloat16);
  RequireVector({operation, "low", low}, count, kHalves);
}

}  // namespace

void Ops::SumOfSquares(std::span<const Tensor> ranges, const Tensor& sums) {
  RequireVector({"SumOfSquares", "sums", sums}, static_cast<std::int64_t>(ranges.size()), kFloat);
  for (const Tensor& range : ranges) {
    RequireType({"SumOfSquares", "a range", range}, kFloat);
  }
  if (!ranges.empty()) {
    DoSumOfSquares(ranges, sums);
  }
}

void Ops::AdamW(std::span<const AdamWRange> ranges, const AdamWArgs& args) {
  Require(args.step >= 1, "AdamW: step {} is below 1", args.step);
  for (const AdamWRange& range : ranges) {
    const std::int64_t count = range.weight.shape.count();
    RequireWorkingType({"AdamW", "weight", range.weight});
    if (range.weight.dtype == DType::kBFloat16) {
      RequireVector({"AdamW", "low", range.low}, count, kHalves);
    } else {
      Require(!range.low.given(), "AdamW: {} fp32 weights are whole and have no lower halves", count);
    }
    RequireWorkingType({"AdamW", "first_moment", range.first_moment});
    RequireCount({"AdamW", "first_moment", range.first_moment}, count);
    RequireVector({"AdamW", "second_moment", range.second_moment}, count, range.first_moment.dtype);
    RequireVector({"AdamW", "gradient", range.gradient}, count, kFloat);
  }
  if (!ranges.empty()) {
    DoAdamW(ranges, args);
  }
}

void Ops::Split(const Tensor& high, const Tensor& low, const Tensor& from) {
  CheckHalves("Split", high, low, from);
  if (from.count() != 0) {
    DoSplit(high, low, from);
  }
}

void Ops::Join(const Tensor& to, const Tensor& high, const Tensor& low) {
  CheckHalves("Join", high, low, to);
  if (to.count() != 0) {
    DoJoin(to, high, low);
  }
}

void Ops::Reduce(const Tensor& to, std::span<const void* const> sources, bool maximum) {
  RequireWorkingType({"Reduce", "to", to});
  Require(!sources.empty(), "Reduce: no sources");
  if (to.count() != 0) {
    DoReduce(to, sources, maximum);
  }
}

}  // namespace trireme
