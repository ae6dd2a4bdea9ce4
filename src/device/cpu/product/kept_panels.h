// Packed weights that an engine keeps from one product to the next (MatmulArgs::weight_version). Used by one thread.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <tuple>

#include "device/host_memory.h"
#include "device/ops.h"

namespace trireme {

class KeptPanels {
 public:
  // Bytes that all of them may take, 0 at first. What was kept before is dropped.
  void set_limit(std::int64_t bytes) {
    panels_.clear();
    bytes_ = 0;
    limit_ = bytes;
  }
  std::int64_t bytes() const { return bytes_; }

  struct Buffer {
    char* memory = nullptr;  // null: b is not kept, it has no version or there is no room
    bool filled = false;     // holds the panels of this version; otherwise the caller fills it
  };
  // The buffer of args.b's panels, `size` bytes; made where there is room.
  Buffer Reserve(const MatmulArgs& args, std::int64_t size);

 private:
  // Address, extents and type of b, and whether it is transposed.
  using Key = std::tuple<const void*, std::int64_t, std::int64_t, DType, bool>;
  struct Release {
    void operator()(char* memory) const { std::free(memory); }
  };
  struct Panels {
    std::unique_ptr<char, Release> memory;
    std::int64_t version = 0;
  };

  std::map<Key, Panels> panels_;
  std::int64_t limit_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace trireme
