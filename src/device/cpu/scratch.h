// Temporary fp32 memory of CPU operations, one buffer a thread. It grows to the largest need met and stays, so a
// training step allocates nothing once every shape has been seen.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "device/host_memory.h"

namespace trireme {

class Scratch {
 public:
  // Makes `floats` floats ready for each of the first `threads` threads. Contents and earlier pointers are lost.
  void Reserve(int threads, std::int64_t floats) {
    if (static_cast<int>(buffers_.size()) < threads) {
      buffers_.resize(static_cast<std::size_t>(threads));
    }
    for (Buffer& buffer : std::span(buffers_).first(static_cast<std::size_t>(threads))) {
      if (buffer.floats < floats) {
        buffer.memory.reset();
        buffer.memory.reset(static_cast<float*>(AllocatePages(floats * 4)));
        if (buffer.memory == nullptr) {
          throw std::bad_alloc();
        }
        buffer.floats = floats;
      }
    }
  }
  // The buffer of a thread, aligned to a cache line; safe to call inside a parallel region.
  float* of(int thread) const { return buffers_[static_cast<std::size_t>(thread)].memory.get(); }
  std::int64_t bytes() const {
    std::int64_t total = 0;
    for (const Buffer& buffer : buffers_) {
      total += buffer.floats * 4;
    }
    return total;
  }

 private:
  struct Release {
    void operator()(float* memory) const { std::free(memory); }
  };
  struct Buffer {
    std::unique_ptr<float, Release> memory;
    std::int64_t floats = 0;
  };
  std::vector<Buffer> buffers_;
};

}  // namespace trireme
