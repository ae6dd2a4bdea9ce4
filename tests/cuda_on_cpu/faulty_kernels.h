// Small kernels, each with one fault that the checks must name or with none, by name.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "device/cuda/cuda_context.h"

namespace trireme::cuda_on_cpu {

// 64 KiB of GPU memory that is zero and 64 KiB that nothing has written, both for the kernel's use.
struct KernelMemory {
  float* zeros = nullptr;
  float* unwritten = nullptr;
};
inline constexpr int kFloats = 16384;

struct SmallKernel {
  std::string name;
  std::string finding;  // a part of what must be reported; empty: nothing
  void (*start)(const CudaContext& context, const KernelMemory& memory) = nullptr;
};
const std::vector<SmallKernel>& SmallKernels();
inline void PrintTo(const SmallKernel& kernel, std::ostream* out) { *out << kernel.name; }

// Write and read 64 numbers and more.
void StartWrite(const CudaContext& context, float* memory, float value);
void StartRead(const CudaContext& context, const float* memory, float* out);

}  // namespace trireme::cuda_on_cpu
