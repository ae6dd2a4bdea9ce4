#include "device/cpu/product/kept_panels.h"

namespace trireme {

KeptPanels::Buffer KeptPanels::Reserve(const MatmulArgs& args, std::int64_t size) {
  if (args.weight_version == 0) {
    return {};
  }
  const Key key{args.b.data, args.b.shape[0], args.b.shape[1], args.b.dtype, args.transpose_b};
  auto found = panels_.find(key);
  if (found == panels_.end()) {
    if (bytes_ + size > limit_) {
      return {};
    }
    std::unique_ptr<char, Release> memory(static_cast<char*>(AllocatePages(size)));
    if (memory == nullptr) {
      return {};
    }
    bytes_ += size;
    found = panels_.emplace(key, Panels{.memory = std::move(memory)}).first;
  }
  Panels& panels = found->second;
  const bool filled = panels.version == args.weight_version;
  panels.version = args.weight_version;
  return {panels.memory.get(), filled};
}

}  // namespace trireme
