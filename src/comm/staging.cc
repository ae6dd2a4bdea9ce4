#include "comm/staging.h"

#include <memory>

namespace trireme {
namespace {

// A tensor's contents in host memory.
class HostView {
 public:
  HostView(Device& device, const Tensor& tensor, bool read) : view_(tensor) {
    if (device.is_host() || tensor.count() == 0) {
      return;
    }
    copy_ = std::make_unique_for_overwrite<char[]>(static_cast<std::size_t>(tensor.bytes()));
    view_.data = copy_.get();
    if (read) {
      device.CopyToHost(copy_.get(), tensor.data, tensor.bytes());
    }
  }

  const Tensor& tensor() const { return view_; }
  bool is_copy() const { return copy_ != nullptr; }

 private:
  Tensor view_;
  std::unique_ptr<char[]> copy_;
};

}  // namespace

void StageOnHost(Device& device, const Tensor& in, const Tensor& out,
                 const std::function<void(const Tensor& in, const Tensor& out)>& move) {
  const bool in_place = in.data == out.data && in.count() == out.count();
  const HostView from(device, in_place ? Tensor{} : in, true);
  const HostView to(device, out, in_place);
  move(in_place ? to.tensor() : from.tensor(), to.tensor());
  if (to.is_copy()) {
    device.CopyFromHost(out.data, to.tensor().data, out.bytes());
  }
}

}  // namespace trireme
