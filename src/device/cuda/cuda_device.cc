#include "device/cuda/cuda_device.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "device/cuda/attention.h"
#include "device/cuda/cuda_check.h"
#include "device/cudnn_version.h"

namespace trireme {
namespace {

// Dense peaks from the makers' data sheets; fp32 without tf32.
struct Peak {
  const char* name_part;
  double bf16;
  double fp32;
  double fp8;  // 0 where there is none
};
constexpr Peak kPeaks[] = {
    {"H200", 989e12, 67e12, 1979e12},
    {"H100", 989e12, 67e12, 1979e12},
    {"A100", 312e12, 19.5e12, 0},
};

// Where NCCL may connect several ranks of one GPU, kernels of one rank wait for those of another. Then each stream
// that waits needs a hardware queue of its own, and all kernels must be loaded when a device is made: loading one later
// waits until the GPU is idle. CUDA reads both variables when it starts, so this comes before the first call of it; a
// user's own choice stands.
void PrepareToShare() {
  const char* const sharing = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  if (sharing != nullptr && std::string_view(sharing) == "1") {
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  }
}

cudaEvent_t EventOf(const Event& event) { return static_cast<cudaEvent_t>(const_cast<void*>(event.get())); }

}  // namespace

CudaDevice::CudaDevice(int device, const DeviceOptions& options) : context_(device, options), ops_(context_) {
  cudaDeviceProp properties{};
  CheckCuda(cudaGetDeviceProperties(&properties, device), "read the GPU's properties");
  name_ = properties.name;
  cudnn_note_ = CudnnNote(CudnnAttention::LoadedVersion());
  memory_bytes_ = static_cast<std::int64_t>(properties.totalGlobalMem);
}

CudaDevice::~CudaDevice() {
  cudaStreamSynchronize(context_.stream());
  for (const auto& [memory, piece] : small_) {
    cudaFree(memory);
  }
}

std::int64_t CudaDevice::used_bytes() const {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  CheckCuda(cudaMemGetInfo(&free_bytes, &total_bytes), "read how much memory is free");
  return static_cast<std::int64_t>(total_bytes - free_bytes);
}

void* CudaDevice::Allocate(std::int64_t bytes) {
  Require(bytes >= 0, "cannot allocate {} bytes", bytes);
  for (auto& [memory, piece] : small_) {
    if (piece.free && piece.bytes >= bytes && piece.bytes <= 2 * bytes) {
      piece.free = false;
      return memory;
    }
  }
  void* memory = nullptr;
  // A pointer even for zero bytes: a Tensor counts as given when its data is not null.
  const cudaError_t status = cudaMalloc(&memory, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    cudaMemGetInfo(&free_bytes, &total_bytes);
    Fail("{} has no {} bytes of memory left: {} of {} are free", name_, bytes, free_bytes, total_bytes);
  }
  CheckCuda(status, "allocate memory");
  if (bytes <= kSmallBytes) {
    small_[memory] = {.bytes = bytes, .free = false};
  }
  return memory;
}

void CudaDevice::Free(void* memory) {
  if (memory != nullptr) {
    cudaStreamSynchronize(context_.stream());
    if (const auto small = small_.find(memory); small != small_.end()) {
      small->second.free = true;
    } else {
      cudaFree(memory);
    }
  }
}

void* CudaDevice::AllocateHost(std::int64_t bytes) {
  Require(bytes >= 0, "cannot allocate {} bytes", bytes);
  void* memory = nullptr;
  const cudaError_t status =
      cudaHostAlloc(&memory, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)), cudaHostAllocPortable);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    Fail("the host has no {} bytes of memory left that {} can reach", bytes, name_);
  }
  CheckCuda(status, "allocate host memory");
  return memory;
}

void CudaDevice::FreeHost(void* memory) {
  if (memory != nullptr) {
    cudaStreamSynchronize(context_.stream());
    cudaFreeHost(memory);
  }
}

void CudaDevice::CopyToHost(void* host, const void* device, std::int64_t bytes) {
  if (bytes > 0) {
    context_.CopyToHost(host, device, static_cast<std::size_t>(bytes));
  }
}

void CudaDevice::CopyFromHost(void* device, const void* host, std::int64_t bytes) {
  if (bytes > 0) {
    context_.CopyFromHost(device, host, static_cast<std::size_t>(bytes));
  }
}

void CudaDevice::Synchronize() { CheckCuda(cudaStreamSynchronize(context_.stream()), "wait for the GPU"); }

Event CudaDevice::RecordEvent() {
  return launches_.recording() ? EventPool::RecordOnce(context_.stream()) : events_->Record(context_.stream());
}

void CudaDevice::StreamWait(const Event& event) {
  if (event != nullptr) {
    CheckCuda(cudaStreamWaitEvent(context_.stream(), EventOf(event), 0), "wait for other work");
  }
}

void CudaDevice::SynchronizeEvent(const Event& event) {
  if (event != nullptr) {
    CheckCuda(cudaEventSynchronize(EventOf(event)), "wait for the GPU");
  }
}

bool CudaDevice::IsReached(const Event& event) {
  if (event == nullptr) {
    return true;
  }
  const cudaError_t status = cudaEventQuery(EventOf(event));
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  CheckCuda(status, "query an event of the GPU");
  return true;
}

Event CudaDevice::OnStream(int stream, const Event& after, const std::function<void()>& work) {
  assert(stream >= 0 && stream < kStreams);
  // Also leaves the stream when `work` throws.
  struct Visit {
    Visit(CudaContext& visited, int stream) : context(visited), before(visited.EnterStream(stream)) {}
    ~Visit() { context.EnterStream(before); }
    CudaContext& context;
    int before;
  };
  const Visit visit(context_, stream);
  StreamWait(after);
  work();
  return visit.before == stream ? nullptr : RecordEvent();
}

double CudaDevice::peak_flops(DType dtype) const {
  for (const Peak& peak : kPeaks) {
    if (name_.find(peak.name_part) != std::string::npos) {
      if (dtype == DType::kBFloat16 || dtype == DType::kFloat16) {
        return peak.bf16;
      }
      if (dtype == DType::kFloat32) {
        return context_.tf32() ? peak.bf16 / 2 : peak.fp32;
      }
      return IsFloat8(dtype) ? peak.fp8 : 0;
    }
  }
  return 0;
}

std::unique_ptr<Device> MakeCudaDevice(const DeviceOptions& options) {
  const int count = CudaDeviceCount();
  Require(count > 0, "device 'cuda': this machine has no GPU that CUDA can use");
  Require(options.local_rank >= 0, "device 'cuda': local rank {} is negative", options.local_rank);
  return std::make_unique<CudaDevice>(options.local_rank % count, options);
}

int CudaDeviceCount() {
  PrepareToShare();
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();  // no driver is no error here
    return 0;
  }
  return count;
}

}  // namespace trireme
