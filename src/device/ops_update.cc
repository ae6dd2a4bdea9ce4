// Checks of what makes a step's update: norms of gradients, AdamW, halves of masters, sums of ranks, int8 blocks.
#include "base/error.h"
#include "base/int8_block.h"
#include "base/tensor_spec.h"
#include "device/ops.h"
#include "ops/checks.h"

namespace trireme {
namespace {

void CheckHalves(const char* operation, const Tensor& high, const Tensor& low, const Tensor& whole) {
  const std::int64_t count = whole.shape.count();
  RequireVector({operation, "whole", whole}, count, DType::kFloat32);
  RequireVector({operation, "high", high}, count, high.dtype == DType::kFloat16 ? DType::kFloat16 : DType::kBFloat16);
  RequireVector({operation, "low", low}, count, RestOfMaster(high.dtype));
}

void RequireMomentType(const CheckedTensor& operand) {
  RequireType(operand, operand.tensor.dtype == DType::kBFloat16 ? DType::kBFloat16 : DType::kFloat32);
}

void CheckPart(const char* operation, const MatrixPart& part) {
  RequireType({operation, "values", part.values}, DType::kFloat32);
  Require(part.columns > 0 && part.first >= 0 && part.rows.count() * part.columns >= part.first + part.values.count(),
          "{}: elements {} to {} do not lie in a matrix of {} x {}", operation, part.first,
          part.first + part.values.count(), part.rows.count(), part.columns);
  RequireVector({operation, "rows", part.rows}, part.rows.count(), DType::kFloat32);
  RequireVector({operation, "column_values", part.column_values}, part.columns, DType::kFloat32);
}

}  // namespace

void Ops::SumOfSquares(std::span<const Tensor> ranges, const Tensor& sums) {
  RequireVector({"SumOfSquares", "sums", sums}, static_cast<std::int64_t>(ranges.size()), DType::kFloat32);
  for (const Tensor& range : ranges) {
    RequireWorkingType({"SumOfSquares", "a range", range});
    RequireType({"SumOfSquares", "a range", range}, ranges.front().dtype);
  }
  if (!ranges.empty()) {
    DoSumOfSquares(ranges, sums);
  }
}

void Ops::Update(std::span<const UpdateRange> ranges, const UpdateArgs& args) {
  Require(args.step >= 1, "Update: step {} is below 1", args.step);
  for (const UpdateRange& range : ranges) {
    const std::int64_t count = range.weight.shape.count();
    RequireWorkingType({"Update", "weight", range.weight});
    if (range.weight.dtype != DType::kFloat32) {
      RequireVector({"Update", "low", range.low}, count, RestOfMaster(range.weight.dtype));
    } else {
      Require(!range.low.given(), "Update: {} fp32 weights are whole and have no lower halves", count);
    }
    if (HasFirstMoment(args.kind)) {
      RequireMomentType({"Update", "first_moment", range.first_moment});
      RequireCount({"Update", "first_moment", range.first_moment}, count);
    }
    if (HasSecondMoment(args.kind)) {
      RequireMomentType({"Update", "second_moment", range.second_moment});
      RequireVector({"Update", "second_moment", range.second_moment}, count,
                    HasFirstMoment(args.kind) ? range.first_moment.dtype : range.second_moment.dtype);
    }
    RequireVector({"Update", "gradient", range.gradient}, count, DType::kFloat32);
  }
  if (!ranges.empty()) {
    DoUpdate(ranges, args);
  }
}

void Ops::SumSquaresByAxis(const MatrixPart& part, float scale) {
  CheckPart("SumSquaresByAxis", part);
  DoSumSquaresByAxis(part, scale);
}

void Ops::ScaleByAxis(const MatrixPart& part, float scale) {
  CheckPart("ScaleByAxis", part);
  if (part.values.count() != 0) {
    DoScaleByAxis(part, scale);
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

void Ops::PackInt8(const Tensor& packed, const Tensor& from) {
  RequireWorkingType({"PackInt8", "from", from});
  Require(from.count() % kInt8Block == 0, "PackInt8: {} numbers are no multiple of {}", from.count(), kInt8Block);
  RequireVector({"PackInt8", "packed", packed}, PackedWords(from.count()), DType::kInt32);
  if (from.count() != 0) {
    DoPackInt8(packed, from);
  }
}

void Ops::UnpackInt8(const Tensor& to, const Tensor& packed, const Int8Sum& sum) {
  RequireWorkingType({"UnpackInt8", "to", to});
  Require(to.count() % kInt8Block == 0, "UnpackInt8: {} numbers are no multiple of {}", to.count(), kInt8Block);
  Require(!sum.add || to.dtype == DType::kFloat32, "UnpackInt8: sums are added to fp32, not to {}", Name(to.dtype));
  RequireVector({"UnpackInt8", "packed", packed}, sum.parts * PackedWords(to.count()), DType::kInt32);
  if (to.count() != 0) {
    DoUnpackInt8(to, packed, sum);
  }
}

}  // namespace trireme
