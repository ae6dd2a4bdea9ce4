#include "device/cuda/cuda_context.h"

#include <algorithm>

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
      cudaFree(stream.scratch);
      cudaStreamDestroy(stream.handle);
    }
  }
}

void* CudaContext::Scratch(std::int64_t bytes) {
  Stream& stream = streams_[static_cast<std::size_t>(current_)];
  if (bytes > stream.scratch_bytes) {
    CheckCuda(cudaStreamSynchronize(stream.handle), "wait before scratch memory grows");
    cudaFree(stream.scratch);
    ++generation_;
    scratch_bytes_ -= stream.scratch_bytes;
    stream.scratch = nullptr;
    stream.scratch_bytes = 0;
    const std::int64_t rounded = RoundUp(bytes, std::int64_t{1} << 21);
    CheckCuda(cudaMalloc(&stream.scratch, static_cast<std::size_t>(rounded)),
              "allocate scratch memory of an operation");
    stream.scratch_bytes = rounded;
    scratch_bytes_ += rounded;
  }
  return stream.scratch;
}

void* CudaContext::AllocateTable(std::int64_t bytes) {
  void* memory = nullptr;
  CheckCuda(cudaMalloc(&memory, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1))), "allocate a table");
  table_bytes_ += bytes;
  return memory;
}

void CudaContext::FreeTable(void* memory, std::int64_t bytes) {
  cudaFree(memory);
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
  CheckCuda(cudaMemcpyAsync(entry.memory, contents, bytes, cudaMemcpyHostToDevice, context_.stream()),
            "copy a table to the GPU");
  // `contents` may go away after the return, and a table about to be replaced may still be read.
  CheckCuda(cudaStreamSynchronize(context_.stream()), "copy a table to the GPU");
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
