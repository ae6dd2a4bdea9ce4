// A tensor's contents in host memory, for libraries that cannot reach the device: the tensor itself on a host device, a
// copy otherwise.
#pragma once

#include <cstdint>
#include <memory>

#include "device/device.h"
#include "ops/tensor.h"

namespace trireme {

enum class StagingUse : std::uint8_t { kRead, kWrite, kReadAndWrite };

class HostView {
 public:
  // Waits for the device's earlier work when the tensor is read from elsewhere than the host. The device must outlive
  // the view.
  HostView(Device& device, const Tensor& tensor, StagingUse use);

  // Valid as long as the view.
  const Tensor& tensor() const { return view_; }
  // Brings what was written into tensor() to the device; needed after writing only.
  void Store();

 private:
  Device& device_;
  Tensor tensor_;
  Tensor view_;
  std::unique_ptr<char[]> copy_;
};

}  // namespace trireme
