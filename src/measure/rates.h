// Measured speeds of a device: products by shape and type, copies of memory by size and threads. Each function takes a
// fraction of a second and returns the best of several repetitions, which is the one that other work disturbed least.
#pragma once

#include <cstdint>
#include <string>

#include "device/device.h"

namespace trireme {

// A product [m, k] x [k, n].
struct ProductShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

struct ProductRate {
  std::string engine;  // what multiplied
  std::string dtype;   // of the operands
  ProductShape shape;  // zeros: the mean over shapes of training steps
  int threads = 1;
  double gflops = 0;
  bool chosen = false;  // runs of this type use it
};

struct CopyRate {
  std::int64_t bytes = 0;  // that each thread copies, from memory to memory
  int threads = 1;
  double gigabytes_per_second = 0;  // read and written bytes together, of all threads
};

// FLOP/s of the product with operands of `dtype` (fp32 or bf16) on `device`.
double MeasureProduct(Device& device, ProductShape shape, DType dtype);

// std::memcpy of `bytes` by each of `threads` threads at once.
CopyRate MeasureCopy(std::int64_t bytes, int threads);

}  // namespace trireme
