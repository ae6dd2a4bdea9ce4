// Runs a kernel: block after block, a block's threads as fibers of the calling host thread. A warp's lanes run until
// each waits; a warp's operation ends when all live lanes of its mask have come to it, a barrier when all live threads
// of the block have. The seed chooses which block, warp and lane goes next.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cuda_on_cpu/kernel_dialect.h"
#include "cuda_on_cpu/operations.h"

namespace trireme::cuda_on_cpu {

struct KernelLaunch {
  const void* kernel = nullptr;
  Thunk thunk = nullptr;
  Parameters parameters;
  dim3 blocks;
  dim3 threads;
  std::uint64_t shared_bytes = 0;
};

// Runs all blocks as the operation, of which stream, number and clock are given.
void RunKernel(const KernelLaunch& launch, Operation operation);

// Whether threads of the running block share a warp.
bool SameWarp(std::uint32_t a, std::uint32_t b);
// Whether a __syncwarp of both lanes has ended since `a` was at the epoch.
bool WarpSyncedSince(std::uint32_t a, std::uint32_t b, std::uint16_t epoch);
// Ends the block at once: what it would do next cannot be done. Does not return within a kernel.
void AbandonBlock();
void ReportMisaligned(const char* file, std::uint32_t line, std::uintptr_t address);
void ReportIndex(const char* file, std::uint32_t line, std::uintptr_t index);

// Names of all kernels that have run, without template arguments, sorted.
std::vector<std::string> KernelsRun();

}  // namespace trireme::cuda_on_cpu
