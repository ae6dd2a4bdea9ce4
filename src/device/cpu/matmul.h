// Matrix products of the CPU. Several engines can do them (product/engine_choice.h); one that belongs to a device
// divides its products among those chosen for their operands' type. An engine is used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "device/cpu/scratch.h"
#include "device/ops.h"

namespace trireme {

// M, N, K of checked arguments.
struct ProductSizes {
  explicit ProductSizes(const MatmulArgs& args)
      : m(args.c.shape[0]), n(args.c.shape[1]), k(args.a.shape[args.transpose_a ? 0 : 1]) {}
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};

class MatmulEngine {
 public:
  virtual ~MatmulEngine() = default;
  // "packed", "oneDNN 2.6.3".
  virtual std::string name() const = 0;
  // Whether operands of this type (fp32, bf16 or fp16) can be multiplied on this machine.
  virtual bool Multiplies(DType operands) const = 0;
  // As Ops::Matmul, for operands of a type that it multiplies; arguments are checked and none of M, N, K is 0. Equal
  // arguments and threads give equal bits.
  virtual void Run(const MatmulArgs& args) = 0;
  // Bytes of packed weights that may be kept between calls, and drops those of earlier ones; an engine may keep none.
  virtual void set_spare_bytes(std::int64_t /*bytes*/) {}
  // Buffers held between calls, packed weights among them.
  virtual std::int64_t internal_bytes() const = 0;
};

}  // namespace trireme
