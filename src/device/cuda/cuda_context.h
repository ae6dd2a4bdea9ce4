// What the parts of a CUDA device share: streams, facts about the GPU, and memory of the device's own. A stream of a
// device is a stream with scratch memory of its own, which one operation after another may be given without waiting.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device.h"

namespace trireme {

class CudaContext {
 public:
  // Makes `device` the calling thread's GPU and opens a stream on it; other streams open when they are first used.
  CudaContext(int device, const DeviceOptions& options);
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  int device() const { return device_; }
  // The handle of the current stream.
  cudaStream_t stream() const { return streams_[static_cast<std::size_t>(current_)].handle; }
  // Makes `stream` the current one; returns the one before it.
  int EnterStream(int stream);
  int multiprocessors() const { return multiprocessors_; }
  // Equal bits from equal runs.
  bool deterministic() const { return deterministic_; }
  bool tf32() const { return tf32_; }
  // 90 for compute capability 9.0.
  int capability() const { return capability_; }

  int current_stream() const { return current_; }

  // Both return when the copy is done, after all earlier work of the current stream. Through page-locked memory of this
  // context: CUDA itself lets one thread after another copy from pageable memory, and a thread whose copy waits for
  // another rank's collective would keep that rank from enqueuing it.
  void CopyToHost(void* host, const void* device, std::size_t bytes);
  void CopyFromHost(void* device, const void* host, std::size_t bytes);

  // Memory that is taken and given back in the order of the current stream's work: cudaFree would wait for the whole
  // GPU, other ranks' collectives included.
  void* AllocateInOrder(std::int64_t bytes, const char* what);
  void FreeInOrder(void* memory);

  // At least `bytes` of GPU memory, aligned to 256, for the operation at hand: the next call may give it again. It
  // grows (and waits for the stream) only when an operation needs more than any before.
  void* Scratch(std::int64_t bytes);
  // Whether Scratch(bytes) would find that much memory free, as things are now.
  bool HasRoomForScratch(std::int64_t bytes) const;
  // Memory for tables kept as long as the context.
  void* AllocateTable(std::int64_t bytes);
  void FreeTable(void* memory, std::int64_t bytes);

  // Grows whenever memory that operations were given is freed: recorded launches of before must not run again.
  std::int64_t generation() const { return generation_; }

  // GPU memory that this context holds.
  std::int64_t bytes() const { return scratch_bytes_ + table_bytes_; }

 private:
  int device_ = 0;
  bool deterministic_ = false;
  bool tf32_ = false;
  int capability_ = 0;
  int multiprocessors_ = 0;
  struct Stream {
    cudaStream_t handle = nullptr;
    void* scratch = nullptr;
    std::int64_t scratch_bytes = 0;
  };
  void OpenStream(int stream);
  static std::int64_t ScratchStep(std::int64_t bytes);

  static constexpr std::size_t kBounceBytes = std::size_t{4} << 20;
  std::array<Stream, kStreams> streams_;
  void* bounce_ = nullptr;  // page-locked
  int current_ = 0;
  std::int64_t scratch_bytes_ = 0;  // of all streams
  std::int64_t table_bytes_ = 0;
  std::int64_t generation_ = 0;
};

// Tables in GPU memory, found again by the contents that they were made from.
class CudaTables {
 public:
  explicit CudaTables(CudaContext& context) : context_(context) {}
  ~CudaTables();
  CudaTables(const CudaTables&) = delete;
  CudaTables& operator=(const CudaTables&) = delete;

  // The table stored under `key`, or null. Valid until the 64th Insert after its own.
  const void* Find(const std::vector<std::int64_t>& key) const;
  // Copies `bytes` of `contents` to the GPU under `key`.
  const void* Insert(const std::vector<std::int64_t>& key, const void* contents, std::size_t bytes);

 private:
  static constexpr std::size_t kMostEntries = 64;
  struct Entry {
    std::vector<std::int64_t> key;
    void* memory = nullptr;
    std::int64_t bytes = 0;
  };
  CudaContext& context_;
  std::vector<Entry> entries_;
  std::size_t oldest_ = 0;
};

}  // namespace trireme
