// Clears device memory with a kernel instead of cudaMemsetAsync. Ranks that share a GPU wait for each other on it, and
// with memsets in their CUDA graphs two ranks of a tensor group deadlocked. Measured: streams that wait with a memset
// behind them hold up other streams from 16 on, with kernels from 28 on; why two suffice is not known
// (docs/evidence/shared_gpu.md, benchmarks/stream_queues.cu).
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

// Puts kernels in the place of the memsets to 0 of a captured graph, which libraries enqueue. Not within child graphs;
// the graph must not allocate memory.
void ClearByKernels(const CudaContext& context, cudaGraph_t graph);

}  // namespace trireme
