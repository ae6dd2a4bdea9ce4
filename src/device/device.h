// One accelerator, or the host: memory, copies and operations. A rank has one Device and uses it from one thread.
// Operations and copies on a device happen in the order of the calls; on a GPU they are asynchronous to the host
// until Synchronize(), except where a function says otherwise. Work given to OnStream() happens in a stream of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/dtype.h"
#include "device/ops.h"

namespace trireme {

// An event in a device's stream, as CUDA has it. Copies share one event, destroyed with the last of them; an empty one
// is already reached. Any thread may hold one, and any device of the same machine may wait for it.
using Event = std::shared_ptr<const void>;

// Streams of a device: computation, collectives, each direction of the link to host memory, one per route of pipeline
// messages, what passes around the context axis while attention runs, and one per route of its messages.
inline constexpr int kStreams = 13;
inline constexpr int kComputeStream = 0;
inline constexpr int kCollectiveStream = 1;
inline constexpr int kFromHostStream = 2;
inline constexpr int kToHostStream = 3;
inline constexpr int kFirstMessageStream = 4;
inline constexpr int kMessageStreams = 4;  // of one group
inline constexpr int kContextStream = 8;
inline constexpr int kFirstContextMessageStream = 9;

class PacedCluster;

class Device {
 public:
  virtual ~Device() = default;

  // "cpu (avx2, packed)", "NVIDIA H200": for logs.
  virtual std::string description() const = 0;
  virtual bool is_host() const = 0;

  // Memory aligned to 256 bytes, uninitialised; Free(nullptr) does nothing. Not used within a step: see Arena.
  virtual void* Allocate(std::int64_t bytes) = 0;
  virtual void Free(void* memory) = 0;
  // Allocates host memory made for this device: Ops::Copy between the two overlaps with the host's work
  // at the full speed of the link, and every operation may be given such memory, at that speed. It can be read and
  // written through CopyToHost and CopyFromHost as if it were the device's, in the order of the device's work.
  virtual void* AllocateHost(std::int64_t bytes);
  virtual void FreeHost(void* memory);

  // Both return when the copy is done, after all earlier work of this device.
  virtual void CopyToHost(void* host, const void* device, std::int64_t bytes) = 0;
  virtual void CopyFromHost(void* device, const void* host, std::int64_t bytes) = 0;
  virtual void Synchronize() = 0;

  virtual Ops& ops() = 0;

  // Records an event after all work enqueued so far on the current stream.
  virtual Event RecordEvent() { return nullptr; }
  // Later work of the current stream starts after `event`. The host does not wait.
  virtual void StreamWait(const Event& /*event*/) {}
  // The host waits until `event` is reached.
  virtual void SynchronizeEvent(const Event& /*event*/) {}
  virtual bool IsReached(const Event& /*event*/) { return true; }
  // Calls `work` at once. The operations that it starts on this device are enqueued on `stream` (below kStreams), after
  // `after`, and overlap with the other streams. Returns an event recorded behind them: wait for it before reading the
  // results or freeing the memory. Returns an empty event when `stream` is the current one. A device without streams
  // runs the work at once.
  virtual Event OnStream(int stream, const Event& after, const std::function<void()>& work);

  // Seconds of the rank's clock, which only goes forward: real ones, or simulated ones on a paced device.
  virtual double Now() const;
  // The rank stands still for so many seconds of that clock: a drill.
  virtual void Pause(double seconds);
  // Whether operations take time and compute nothing (device/paced/paced_device.h).
  virtual bool is_paced() const { return false; }

  // Where operations are enqueued now.
  virtual int current_stream() const { return kComputeStream; }
  // That stream's handle (a cudaStream_t), for a library that puts work on it; null where there is none.
  virtual void* native_stream() const { return nullptr; }

  // Calls `work`, which must start the same operations with the same arguments on this device whenever it is called
  // with this key, and neither wait for the device nor read from it. A device may record what `work` starts and later
  // start that again without calling `work`. FLOPs are counted either way.
  virtual void Repeat(std::int64_t key, const std::function<void()>& work);
  // Records `work` for Repeat without starting it, if a Repeat of this key has run it; false if not. Where ranks share
  // a GPU over NCCL the driver waits for the GPU here: call it while no rank has work there.
  virtual bool Record(std::int64_t /*key*/, const std::function<void()>& /*work*/) { return false; }
  // False: Repeat starts what Record has recorded and records nothing itself.
  virtual void set_repeat_records(bool /*records*/) {}
  // Whether the current stream's work is being recorded: nothing may be waited for, and events mark no time.
  virtual bool IsRecording() const { return false; }
  // Drops all recordings. Before what they use is destroyed: communicators wait for their recorded collectives.
  virtual void ForgetRepeats() {}

  // How this device has chosen to do its operations so far, as lines of text for a later run; empty where there is no
  // choice. Reading takes over what fits this device and library, and leaves the rest aside.
  virtual std::string choices() const { return ""; }
  virtual void ReadChoices(const std::string& /*lines*/) {}
  // What was asked for, by options or by choices that were read, and is done otherwise because this machine cannot: one
  // line for the log. Empty: all is done as asked.
  virtual std::string substitutions() const { return ""; }

  // Memory that the device may take in addition for what makes repeated operations faster: MatmulArgs::weight_version.
  // None at first. Drops what it has made so far: to be called when weights with versions of their own come or go.
  virtual void set_spare_bytes(std::int64_t /*bytes*/) {}
  // Bytes that the device holds in addition to what was allocated here: vendor workspaces, context.
  virtual std::int64_t internal_bytes() const = 0;
  // Memory of the device in bytes; 0 when unknown.
  virtual std::int64_t memory_bytes() const = 0;
  // Bytes of it in use, by all programs; 0 when unknown.
  virtual std::int64_t used_bytes() const { return 0; }
  // Dense matrix peak in FLOP/s for operands of `dtype`; 0 when unknown.
  virtual double peak_flops(DType dtype) const = 0;
};

struct DeviceOptions {
  std::string kind = "auto";  // auto | cpu | cuda | paced
  int local_rank = 0;         // rank within its machine: chooses the GPU, modulo their number
  int threads = 1;            // OpenMP threads of a CPU device; where ranks are started 0: their part of the cores
  std::string pin = "none";   // none | auto | cores: how ranks are bound to cores (device/pinning.h)
  std::string engines;        // a CPU's engines of products (cpu/product/engine_choice.h); empty: the fixed table
  // Where ranks are started: gives `engines` once for all of them, on one rank, with the threads of each. A device that
  // was given one takes over the engines of a checkpoint (ReadChoices), other devices keep their own.
  std::function<std::string(int threads)> choose_engines;
  bool deterministic = false;  // a GPU: equal bits from equal runs, at some cost
  bool tf32 = false;           // a GPU: fp32 products with operands rounded to 10 bits of mantissa
  // The cluster of a paced device, which shares it with all ranks: what everything costs.
  std::shared_ptr<const PacedCluster> paced = nullptr;
};

// An Error when the kind is unknown, or was not built, or has no hardware here.
std::unique_ptr<Device> MakeDevice(const DeviceOptions& options);
// The Error that MakeDevice would give for a device that computes, before ranks start; nothing is made.
void RequireDevice(const std::string& kind);
// Whether MakeDevice gives a device that works in the host's memory.
bool IsHostDevice(const std::string& kind);
std::unique_ptr<Device> MakeCpuDevice(const DeviceOptions& options);
// Requires options.paced.
std::unique_ptr<Device> MakePacedDevice(const DeviceOptions& options);
// In builds without CUDA this throws the Error "not built with CUDA".
std::unique_ptr<Device> MakeCudaDevice(const DeviceOptions& options);
// GPUs that MakeCudaDevice could use; 0 in builds without CUDA.
int CudaDeviceCount();

}  // namespace trireme
