#include "comm/staging.h"

namespace trireme {

HostView::HostView(Device& device, const Tensor& tensor, StagingUse use)
    : device_(device), tensor_(tensor), view_(tensor) {
  if (device.is_host() || tensor.count() == 0) {
    return;
  }
  copy_ = std::make_unique_for_overwrite<char[]>(static_cast<std::size_t>(tensor.bytes()));
  view_.data = copy_.get();
  if (use != StagingUse::kWrite) {
    device.CopyToHost(copy_.get(), tensor.data, tensor.bytes());
  }
}

void HostView::Store() {
  if (copy_ != nullptr) {
    device_.CopyFromHost(tensor_.data, copy_.get(), tensor_.bytes());
  }
}

}  // namespace trireme
