// What blocks keep for backward, in host memory (layout.offload_activations). A block computes in one of a few buffers
// of the device. After forward the buffer is copied to the block's place in host memory, and it comes back one block
// ahead of its backward, in two streams that overlap with the computation. Buffers serve all chunks of a rank.
//
// Three buffers: while a block computes in one and writes its output into the next, the third is copied. What is still
// in a buffer when it is asked for is not fetched again.
//
// Events: a buffer is written after its last copy to the host and after all computation enqueued before. A place in
// host memory is read after its last copy has arrived, since its buffer has been given to another block, which waited
// for it.
#pragma once

#include <array>
#include <cstdint>

#include "cost/step_cost.h"
#include "device/device.h"

namespace trireme {

class ActivationBuffers {
 public:
  // `memory`: kActivationBuffers * bytes on the device, each able to hold any block of the rank. Both outlive this.
  ActivationBuffers(Device& device, char* memory, std::int64_t bytes);

  // A block's place in host memory, which also names it; `bytes` of it are kept.
  struct Home {
    char* host = nullptr;
    std::int64_t bytes = 0;
  };
  // A buffer for a block to compute forward in; its contents are undefined. Taken until Save or Drop.
  char* Take(const Home& home);
  // Starts to bring back what Save put away, unless it is here; the buffer is taken until Save or Drop.
  void Prefetch(const Home& home);
  // The buffer of a block that was taken or prefetched, once the computation may read it.
  char* Get(const Home& home);
  // The computation enqueued so far is done with the buffer: starts to copy it to the host.
  void Save(const Home& home);
  // Gives the buffer back; what it holds is not needed any more.
  void Drop(const Home& home);

 private:
  struct Buffer {
    char* memory = nullptr;
    const char* holds = nullptr;  // the place in host memory of what is in it
    bool taken = false;
    std::int64_t used = 0;  // when it was last taken
    Event saved;            // when the last copy to the host is done
    Event fetched;          // when the last copy from the host is
  };
  Buffer* Find(const Home& home);
  // The buffer that was free for the longest, now taken for `home`.
  Buffer& TakeFree(const Home& home);
  Tensor Bytes(char* memory, const Home& home) const { return {memory, DType::kUInt8, {home.bytes}}; }

  Device& device_;
  std::array<Buffer, kActivationBuffers> buffers_;
  std::int64_t clock_ = 0;
};

}  // namespace trireme
