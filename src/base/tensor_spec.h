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

// What an optimizer keeps. An fp32 weight is its own master; a bf16 one is the master's upper half, the lower one lies
// with the moments.
struct OptimizerTensors {
  TensorSpec low;
  TensorSpec first_moment;
  TensorSpec second_moment;

  OptimizerTensors() = default;
  OptimizerTensors(MemoryKind kind, const OptimizerCounts& counts, DType working, DType moments)
      : low{kind, DType::kUInt16, working == DType::kFloat32 ? 0 : counts.parameters},
        first_moment{kind, moments, counts.first_moments},
        second_moment{kind, moments, counts.second_moments} {}
  std::int64_t bytes() const { return low.bytes() + first_moment.bytes() + second_moment.bytes(); }
};

}  // namespace trireme
