// Matrix products with their epilogues, and the fp8 copies of their operands.
#pragma once

#include <cstdint>

#include "ops/tensor.h"

namespace trireme {

// Extents of matrices in fp8 are multiples of this.
inline constexpr std::int64_t kFloat8Unit = 16;

// What happens to a product before it is stored.
enum class Epilogue : std::uint8_t {
  kNone,
  kGelu,          // auxiliary = z, c = gelu(z), for z = product + bias
  kGeluGradient,  // c = z * gelu'(auxiliary); no bias
  kResidual,      // c = z + auxiliary for z = product + bias; z is rounded before where the engine has no such epilogue
};

// c = op(a) * op(b) (+ bias) or, with accumulate, c += op(a) * op(b). Matrices: op(a) [M, K], op(b) [K, N], c [M, N].
// a and b share a type; c has it too, or is fp32. bias [N] has the type of a. accumulate excludes bias and epilogue.
// An auxiliary tensor has the shape and type of c and does not overlap it.
// In fp8, a and b are e4m3 or e5m2 with scales as Quantize leaves them; only b is transposed, M, N and K are multiples
// of 16, at most one operand is e5m2; bias is bf16 and c bf16 or fp32.
struct MatmulArgs {
  Tensor a;
  Tensor b;
  Tensor c;
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;
  Tensor bias;
  Epilogue epilogue = Epilogue::kNone;
  Tensor auxiliary;
  Tensor scale_a;  // fp32 [1]; given in fp8 only
  Tensor scale_b;
  // Ranks with equal operands get equal bits: no algorithm that one rank alone has chosen by measurement. For products
  // whose result is a copy that each rank makes for itself.
  bool equal_on_ranks = false;
  Tensor largest;  // in fp8 with kGeluGradient only: see QuantizeArgs
  // Above 0: b is a weight. Calls with the same b and version multiply the same values, and a device may keep from one
  // to the next what it makes of b (a CPU: packed panels), within Device::set_spare_bytes. Results do not depend on it.
  std::int64_t weight_version = 0;
};

// An fp8 copy of a matrix with one scale: from[i] is about stored[i] * scale. scale is the smallest power of two with
// which no value leaves the range of the format, so that rounding does not depend on it (but for the smallest values);
// it is NaN when a value is not finite. rows and columns share a format; either may be missing.
//
// largest, where given, was given to the operation that made `from`, too: that one may have left the largest magnitude
// of its result there, so that no pass has to look for it. Only the device's own Quantize reads it.
//
// guess, where given, may hold anything; the scale of an earlier matrix of this kind saves a pass. The scale is left
// there for the next one. Results do not depend on it.
struct QuantizeArgs {
  Tensor from;         // [R, C]
  Tensor rows;         // [R, C]
  Tensor columns;      // [C, R], the transpose
  Tensor scale;        // fp32 [1], written
  Tensor largest;      // fp32 [kLargestSlots], or none
  Tensor column_sums;  // fp32 [C], or none: as BiasGradient, the sum of each column of `from` is added
  Tensor guess;        // fp32 [1], or none
};

}  // namespace trireme
