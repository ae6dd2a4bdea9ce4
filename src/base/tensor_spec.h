// A tensor before it has memory: the rows of the tables that plans add up and that the doing half allocates from.
#pragma once

#include <cstdint>

#include "base/accounting.h"
#include "base/dtype.h"
#include "base/shape.h"

namespace trireme {

// Every planned tensor starts at a multiple of this.
inline constexpr std::int64_t kTensorAlignment = 256;

struct TensorSpec {
  MemoryKind kind = MemoryKind::kMessages;
  DType dtype = DType::kFloat32;
  std::int64_t count = 0;  // elements; 0: there is no such tensor

  std::int64_t bytes() const { return RoundUp(count * SizeOf(dtype), kTensorAlignment); }
};

// Elements of an optimizer's state: AdamW keeps both moments of each parameter, others fewer.
struct OptimizerCounts {
  std::int64_t parameters = 0;
  std::int64_t first_moments = 0;
  std::int64_t second_moments = 0;
};

// What an optimizer keeps of the fp32 masters of weights that are bf16 (the lower halves: the weights are the upper
// ones, base/split_float.h) or fp16 (the masters, whole). An fp32 weight is its own master.
constexpr DType RestOfMaster(DType working) { return working == DType::kFloat16 ? DType::kFloat32 : DType::kUInt16; }

struct OptimizerTensors {
  TensorSpec low;  // of RestOfMaster's type
  TensorSpec first_moment;
  TensorSpec second_moment;

  OptimizerTensors() = default;
  OptimizerTensors(MemoryKind kind, const OptimizerCounts& counts, DType working, DType moments)
      : low{kind, RestOfMaster(working), working == DType::kFloat32 ? 0 : counts.parameters},
        first_moment{kind, moments, counts.first_moments},
        second_moment{kind, moments, counts.second_moments} {}
  std::int64_t bytes() const { return low.bytes() + first_moment.bytes() + second_moment.bytes(); }
};

}  // namespace trireme
