// Clears device memory with a kernel. cudaMemsetAsync waits in hardware queues that the streams of a context share, and
// which are fewer than those of kernels: ranks that share a GPU hold each other up there. With memsets in CUDA graphs
// two ranks of a tensor group deadlocked (docs/performance.md, benchmarks/stream_queues.cu).
#pragma once

#include <cstdint>

#include "device/cuda/cuda_context.h"

namespace trireme {

// Both are asynchronous, on the context's current stream.
void ClearMemory(const CudaContext& context, void* memory, std::int64_t bytes);
// The first `bytes` of each of `rows` rows, which begin `bytes_between` apart.
struct ClearedRows {
  void* first = nullptr;
  std::int64_t bytes_between = 0;
  std::int64_t bytes = 0;
  std::int64_t rows = 0;
};
void ClearRows(const CudaContext& context, const ClearedRows& cleared);

// Puts kernels in the place of the memsets to 0 of a graph, which libraries have recorded.
void ClearByKernels(const CudaContext& context, cudaGraph_t graph);

}  // namespace trireme
