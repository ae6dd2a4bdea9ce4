// Matrix products of the CPU. A build has one engine, chosen by CMake: oneDNN's primitives or the plain loops below.
// An engine belongs to one device and is used by one thread at a time.
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
  // "plain", "oneDNN 2.6".
  virtual std::string name() const = 0;
  // As Ops::Matmul; arguments are checked and none of M, N, K is 0.
  virtual void Run(const MatmulArgs& args) = 0;
  // Buffers held between calls.
  virtual std::int64_t internal_bytes() const = 0;
};

std::unique_ptr<MatmulEngine> MakeMatmulEngine(int threads);

// The definition of Ops::Matmul: blocked loops in fp32. Equal arguments give equal bits.
void PlainMatmul(const MatmulArgs& args, int threads, Scratch& scratch);

}  // namespace trireme
