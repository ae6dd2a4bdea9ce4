// The functions of CUDA's runtime that Trireme uses, on the simulated GPU: launches, memory and what is asked of a GPU.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "cuda_on_cpu/access_check.h"
#include "cuda_on_cpu/device_memory.h"
#include "cuda_on_cpu/executor.h"
#include "cuda_on_cpu/findings.h"
#include "cuda_on_cpu/graphs.h"
#include "cuda_on_cpu/launch_limits.h"
#include "cuda_on_cpu/streams.h"

#undef cudaLaunchKernelEx

namespace trireme::cuda_on_cpu {
namespace {

// Few, so that grids whose size goes by it stay small and their threads loop.
constexpr int kMultiprocessors = 4;

thread_local cudaError_t last_error = cudaSuccess;

// The named user of an allocation that the clock does not know to have ended.
bool IsInUse(const Allocation& allocation, const Clock& known) {
  for (std::uint32_t stream = 0; stream < allocation.users.size(); ++stream) {
    if (allocation.users[stream] > known.Of(stream)) {
      return true;
    }
  }
  return false;
}

Allocation* LiveAllocation(const void* memory) {
  Allocation* const found = FindAllocation(reinterpret_cast<std::uintptr_t>(memory));
  return found == nullptr || found->freed || found->first != reinterpret_cast<std::uintptr_t>(memory) ? nullptr : found;
}

cudaError_t FreeNow(const char* call, void* memory) {
  if (memory == nullptr) {
    return cudaSuccess;
  }
  if (IsForbidden(call)) {
    return Status(cudaErrorStreamCaptureUnsupported);
  }
  RunAll();
  Allocation* const allocation = LiveAllocation(memory);
  if (allocation == nullptr) {
    Report(std::string(call) + " unknown",
           std::string(call) + " of " + DescribeAddress(reinterpret_cast<std::uintptr_t>(memory)));
    return Status(cudaErrorInvalidValue);
  }
  if (IsInUse(*allocation, HostClock())) {
    Report(std::string(call) + " in use",
           "freed while in use: " + std::string(call) + " of memory with whose users the host has not waited for");
  }
  Release(*allocation);
  return cudaSuccess;
}

struct Copy {
  char* to;
  std::size_t to_pitch;
  const char* from;
  std::size_t from_pitch;
  std::size_t width;
  std::size_t rows;
};

void CopyNow(const Copy& copy, Operation operation) {
  BeginOperation(std::move(operation), 1);
  for (std::size_t row = 0; row < copy.rows; ++row) {
    char* const to = copy.to + row * copy.to_pitch;
    const char* const from = copy.from + row * copy.from_pitch;
    if (IsGpuMemory(to) && IsGpuMemory(from)) {
      CheckCopy(to, from, copy.width);
    } else if (IsGpuMemory(to)) {
      CheckRange(to, copy.width, Access::kWrite);
    } else if (IsGpuMemory(from)) {
      CheckRange(from, copy.width, Access::kRead);
    }
    std::memmove(to, from, copy.width);
  }
}

cudaError_t PutCopy(const Copy& copy, Stream* stream) {
  const bool to_host = !IsGpuMemory(copy.to);
  if (copy.width == 0 || copy.rows == 0) {
    return cudaSuccess;
  }
  if (IsGpuMemory(copy.from)) {
    Put(stream, "a copy", [copy](Operation operation) { CopyNow(copy, std::move(operation)); });
  } else {  // CUDA has read pageable memory when it returns
    const std::size_t bytes = (copy.rows - 1) * copy.from_pitch + copy.width;
    const auto kept = std::make_shared<std::vector<char>>(copy.from, copy.from + bytes);
    Put(stream, "a copy", [copy, kept](Operation operation) {
      Copy own = copy;
      own.from = kept->data();
      CopyNow(own, std::move(operation));
    });
  }
  if (to_host && stream->capture == nullptr) {
    WaitFor(stream);
  }
  return cudaSuccess;
}

cudaError_t PutMemset(void* memory, std::size_t pitch, int value, std::size_t width, std::size_t rows, Stream* stream) {
  Put(stream, "cudaMemsetAsync", [=](Operation operation) {
    BeginOperation(std::move(operation), 1);
    for (std::size_t row = 0; row < rows; ++row) {
      CheckRange(static_cast<char*>(memory) + row * pitch, width, Access::kWrite);
      std::memset(static_cast<char*>(memory) + row * pitch, value, width);
    }
  });
  if (stream->capture != nullptr) {
    Node& node = *stream->frontier.front();
    node.type = cudaGraphNodeTypeMemset;
    node.memset = cudaMemsetParams{.dst = memory,
                                   .pitch = pitch,
                                   .value = static_cast<unsigned>(value),
                                   .elementSize = 1,
                                   .width = width,
                                   .height = rows};
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t Status(cudaError_t error) {
  if (error != cudaSuccess) {
    last_error = error;
  }
  return error;
}

cudaError_t Enqueue(const cudaLaunchConfig_t& config, const void* kernel, Thunk thunk, const Parameters& parameters) {
  const auto lock = LockGpu();
  const KernelLaunch launch{.kernel = kernel,
                            .thunk = thunk,
                            .parameters = parameters,
                            .blocks = config.gridDim,
                            .threads = config.blockDim,
                            .shared_bytes = config.dynamicSmemBytes};
  const cudaError_t error = CheckLimits(launch);
  if (error == cudaSuccess) {
    Put(StreamOf(config.stream), "", [launch](Operation operation) { RunKernel(launch, std::move(operation)); });
  }
  return Status(error);
}

void SortPairs(const std::uint32_t* keys, std::uint32_t* sorted_keys, const std::int32_t* values,
               std::int32_t* sorted_values, int count, int bits, cudaStream_t stream) {
  const auto lock = LockGpu();
  Put(StreamOf(stream), "cub::DeviceRadixSort::SortPairs", [=](Operation operation) {
    BeginOperation(std::move(operation), 1);
    const auto size = static_cast<std::size_t>(count);
    CheckRange(keys, size * 4, Access::kRead);
    CheckRange(values, size * 4, Access::kRead);
    CheckRange(sorted_keys, size * 4, Access::kWrite);
    CheckRange(sorted_values, size * 4, Access::kWrite);
    std::vector<std::pair<std::uint32_t, std::int32_t>> pairs(size);
    for (std::size_t i = 0; i < size; ++i) {
      pairs[i] = {keys[i], values[i]};
    }
    const std::uint32_t mask = bits >= 32 ? ~0U : (1U << bits) - 1;
    std::ranges::stable_sort(pairs, {}, [mask](const auto& pair) { return pair.first & mask; });
    for (std::size_t i = 0; i < size; ++i) {
      sorted_keys[i] = pairs[i].first;
      sorted_values[i] = pairs[i].second;
    }
  });
}

extern "C" {

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "refused by tests/cuda_on_cpu";
}
const char* cudaGetErrorName(cudaError_t error) {
  thread_local char name[32];
  std::snprintf(name, sizeof(name), "cudaError %d", static_cast<int>(error));
  return name;
}

cudaError_t cudaSetDevice(int device) { return Status(device == 0 ? cudaSuccess : cudaErrorInvalidDevice); }
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int /*device*/) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = kMultiprocessors;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      return cudaSuccess;
    default:
      return Status(cudaErrorNotSupported);
  }
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int /*device*/) {
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "CUDA on a CPU");
  properties->major = 9;
  properties->multiProcessorCount = kMultiprocessors;
  properties->totalGlobalMem = kGpuBytes;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int /*device*/) {
  std::snprintf(text, static_cast<std::size_t>(bytes), "0000:00:00.0");
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  const auto lock = LockGpu();
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize ||
      static_cast<std::uint64_t>(value) > kMostDynamicShared) {
    return Status(cudaErrorInvalidValue);
  }
  AllowDynamicShared(kernel, static_cast<std::uint64_t>(value));
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* /*kernel*/) {
  *attributes = {};
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  const auto lock = LockGpu();
  *total_bytes = kGpuBytes;
  *free_bytes = kGpuBytes - GpuBytesInUse();
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  const auto lock = LockGpu();
  if (IsForbidden("cudaMalloc")) {
    return Status(cudaErrorStreamCaptureUnsupported);
  }
  *memory = AllocateOnGpu(bytes, false);
  return Status(*memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}
cudaError_t cudaFree(void* memory) {
  const auto lock = LockGpu();
  return FreeNow("cudaFree", memory);
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned /*flags*/) {
  const auto lock = LockGpu();
  if (IsForbidden("cudaHostAlloc")) {
    return Status(cudaErrorStreamCaptureUnsupported);
  }
  *memory = AllocateOnGpu(bytes, true);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  const auto lock = LockGpu();
  return FreeNow("cudaFreeHost", memory);
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int /*device*/) {
  *pool = nullptr;
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t /*pool*/, cudaMemPoolAttr /*name*/, void* /*value*/) {
  return cudaSuccess;
}
cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t handle) {
  const auto lock = LockGpu();
  Stream* const stream = StreamOf(handle);
  if (stream->capture != nullptr) {
    return Status(cudaErrorNotSupported);  // the memory would be the graph's
  }
  *memory = AllocateOnGpu(bytes, false);
  if (*memory == nullptr) {
    return Status(cudaErrorMemoryAllocation);
  }
  LiveAllocation(*memory)->pending = true;
  Put(stream, "cudaMallocAsync", [memory = *memory](Operation operation) {
    BeginOperation(std::move(operation), 1);
    if (Allocation* const allocation = LiveAllocation(memory)) {
      allocation->pending = false;
      allocation->born = actor.run;
    }
  });
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t handle) {
  const auto lock = LockGpu();
  if (LiveAllocation(memory) == nullptr || StreamOf(handle)->capture != nullptr) {
    return Status(cudaErrorInvalidValue);
  }
  Put(StreamOf(handle), "cudaFreeAsync", [memory](Operation operation) {
    BeginOperation(std::move(operation), 1);
    Allocation* const allocation = LiveAllocation(memory);
    if (allocation == nullptr) {
      Report("cudaFreeAsync twice", "freed twice: cudaFreeAsync");
      return;
    }
    if (IsInUse(*allocation, CurrentOperation().clock)) {
      Report("cudaFreeAsync in use", "freed while in use: cudaFreeAsync in a stream that has not waited for all users");
    }
    Release(*allocation);
  });
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
  const auto lock = LockGpu();
  return PutCopy({static_cast<char*>(to), bytes, static_cast<const char*>(from), bytes, bytes, 1}, StreamOf(stream));
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t rows, cudaMemcpyKind /*kind*/, cudaStream_t stream) {
  const auto lock = LockGpu();
  if (width > to_pitch || width > from_pitch) {
    return Status(cudaErrorInvalidPitchValue);
  }
  return PutCopy({static_cast<char*>(to), to_pitch, static_cast<const char*>(from), from_pitch, width, rows},
                 StreamOf(stream));
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  const auto lock = LockGpu();
  return PutMemset(memory, bytes, value, bytes, 1, StreamOf(stream));
}
cudaError_t cudaMemset2DAsync(void* memory, std::size_t pitch, int value, std::size_t width, std::size_t rows,
                              cudaStream_t stream) {
  const auto lock = LockGpu();
  return PutMemset(memory, pitch, value, width, rows, StreamOf(stream));
}

}  // extern "C"
}  // namespace trireme::cuda_on_cpu
