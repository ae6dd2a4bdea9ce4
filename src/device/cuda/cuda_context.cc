#include "device/cuda/cuda_context.h"

#include <algorithm>
#include <cstring>

#include "base/shape.h"
#include "device/cuda/architectures.h"
#include "device/cuda/cuda_check.h"

namespace trireme {

CudaContext::CudaContext(int device, const DeviceOptions& options)
    : device_(device), deterministic_(options.deterministic), tf32_(options.tf32) {
  CheckCuda(cudaSetDevice(device), "choose the GPU");
  CheckCuda(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device), "count multiprocessors");
  int major = 0;
  int minor = 0;
  CheckCuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "read the compute capability");
  CheckCuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "read the compute capability");
  capability_ = 10 * major + minor;
  cudaDeviceProp properties{};
  CheckCuda(cudaGetDeviceProperties(&properties, device), "read the GPU's properties");
  RequireKernels(KernelsRunHere(), properties.name, capability_);
  OpenStream(0);
  CheckCuda(cudaHostAlloc(&bounce_, kBounceBytes, cudaHostAllocPortable), "allocate page-locked memory for copies");
  // What was freed stays with this process: to give it back would wait for the GPU.
  cudaMemPool_t pool = nullptr;
  CheckCuda(cudaDeviceGetDefaultMemPool(&pool, device), "find the GPU's memory pool");
  std::uint64_t keep = UINT64_MAX;
  CheckCuda(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep), "set up the GPU's memory pool");
}

void CudaContext::CopyToHost(void* host, const void* device, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes; done += kBounceBytes) {
    const std::size_t part = std::min(kBounceBytes, bytes - done);
    CheckCuda(cudaMemcpyAsync(bounce_, static_cast<const char*>(device) + done, part, cudaMemcpyDefault, stream()),
              "copy to the host");
    CheckCuda(cudaStreamSynchronize(stream()), "copy to the host");
    std::memcpy(static_cast<char*>(host) + done, bounce_, part);
  }
}

void CudaContext::CopyFromHost(void* device, const void* host, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes; done += kBounceBytes) {
    const std::size_t part = std::min(kBounceBytes, bytes - done);
    std::memcpy(bounce_, static_cast<const char*>(host) + done, part);
    CheckCuda(cudaMemcpyAsync(static_cast<char*>(device) + done, bounce_, part, cudaMemcpyDefault, stream()),
              "copy from the host");
    CheckCuda(cudaStreamSynchronize(stream()), "copy from the host");
  }
}

void* CudaContext::AllocateInOrder(std::int64_t bytes, const char* what) {
  void* memory = nullptr;
  CheckCuda(cudaMallocAsync(&memory, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)), stream()), what);
  return memory;
}

void CudaContext::FreeInOrder(void* memory) {
  if (memory != nullptr) {
    cudaFreeAsync(memory, stream());
  }
}

void CudaContext::OpenStream(int stream) {
  // Data on its way should not wait behind the blocks of a large kernel.
  int least = 0;
  int most = 0;
  CheckCuda(cudaDeviceGetStreamPriorityRange(&least, &most), "read the priorities of streams");
  CheckCuda(cudaStreamCreateWithPriority(&streams_[static_cast<std::size_t>(stream)].handle, cudaStreamNonBlocking,
                                         stream == 0 ? least : most),
            "open a stream");
}

int CudaContext::EnterStream(int stream) {
  const int before = current_;
  if (streams_[static_cast<std::size_t>(stream)].handle == nullptr) {
    OpenStream(stream);
  }
  current_ = stream;
  return before;
}

CudaContext::~CudaContext() {
  // After a failed kernel these fail too; a destructor cannot report it.
  for (const Stream& stream : streams_) {
    if (stream.handle != nullptr) {
      cudaStreamSynchronize(stream.handle);
      if (stream.scratch != nullptr) {
        cudaFreeAsync(stream.scratch, stream.handle);
      }
      cudaStreamDestroy(stream.handle);
    }
  }
  cudaFreeHost(bounce_);
}

std::int64_t CudaContext::ScratchStep(std::int64_t bytes) { return RoundUp(bytes, std::int64_t{1} << 21); }

bool CudaContext::HasRoomForScratch(std::int64_t bytes) const {
  const std::int64_t held = streams_[static_cast<std::size_t>(current_)].scratch_bytes;
  if (bytes <= held) {
    return true;
  }
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  CheckCuda(cudaMemGetInfo(&free_bytes, &total_bytes), "read how much memory is free");
  return ScratchStep(bytes) <= held + static_cast<std::int64_t>(free_bytes);
}

void* CudaContext::Scratch(std::int64_t bytes) {
  Stream& stream = streams_[static_cast<std::size_t>(current_)];
  if (bytes > stream.scratch_bytes) {
    CheckCuda(cudaStreamSynchronize(stream.handle), "wait before scratch memory grows");
    FreeInOrder(stream.scratch);
    ++generation_;
    scratch_bytes_ -= stream.scratch_bytes;
    stream.scratch = nullptr;
    stream.scratch_bytes = 0;
    const std::int64_t rounded = ScratchStep(bytes);
    stream.scratch = AllocateInOrder(rounded, "allocate scratch memory of an operation");
    stream.scratch_bytes = rounded;
    scratch_bytes_ += rounded;
  }
  return stream.scratch;
}

void* CudaContext::AllocateTable(std::int64_t bytes) {
  void* const memory = AllocateInOrder(bytes, "allocate a table");
  table_bytes_ += bytes;
  return memory;
}

void CudaContext::FreeTable(void* memory, std::int64_t bytes) {
  FreeInOrder(memory);
  ++generation_;
  table_bytes_ -= bytes;
}

CudaTables::~CudaTables() {
  cudaStreamSynchronize(context_.stream());
  for (const Entry& entry : entries_) {
    context_.FreeTable(entry.memory, entry.bytes);
  }
}

const void* CudaTables::Find(const std::vector<std::int64_t>& key) const {
  const auto found = std::ranges::find_if(entries_, [&](const Entry& entry) { return entry.key == key; });
  return found == entries_.end() ? nullptr : found->memory;
}

const void* CudaTables::Insert(const std::vector<std::int64_t>& key, const void* contents, std::size_t bytes) {
  Entry entry{key, context_.AllocateTable(static_cast<std::int64_t>(bytes)), static_cast<std::int64_t>(bytes)};
  // Waits for the stream: a table about to be replaced may still be read.
  context_.CopyFromHost(entry.memory, contents, bytes);
  if (entries_.size() < kMostEntries) {
    entries_.push_back(std::move(entry));
    return entries_.back().memory;
  }
  Entry& replaced = entries_[oldest_];
  oldest_ = (oldest_ + 1) % kMostEntries;
  context_.FreeTable(replaced.memory, replaced.bytes);
  replaced = std::move(entry);
  return replaced.memory;
}

}  // namespace trireme
