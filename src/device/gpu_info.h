// GPUs of this machine and the CUDA that this program was built with, for reports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct GpuFacts {
  std::string name;
  int capability = 0;  // 90 for 9.0; 0: unknown
  std::int64_t memory_bytes = 0;
  bool built_for = false;  // this program has kernels for it
};

struct CudaFacts {
  bool built = false;
  std::string toolkit;        // version of the runtime; empty: not built with CUDA
  std::string driver;         // newest CUDA that the driver runs; empty: no driver
  std::string cudnn;          // the one found or, without a GPU, built with; empty: built without it
  std::string cudnn_note;     // why attention does without it all the same; empty: it does not
  std::string architectures;  // that the program was built for: "80, 90"
  std::vector<GpuFacts> gpus;
};

// What CUDA says. In builds without it only `built = false`.
CudaFacts DescribeCuda();

}  // namespace trireme
