#include "train/floats_on_host.h"

#include <algorithm>

#include "base/float16.h"

namespace trireme {

std::vector<float> FloatsOnHost(Device& device, const Tensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.count()));
  if (tensor.dtype == DType::kFloat32) {
    device.CopyToHost(values.data(), tensor.data, tensor.bytes());
    return values;
  }
  const auto widen = [&](auto type) {
    std::vector<decltype(type)> raw(values.size());
    device.CopyToHost(raw.data(), tensor.data, tensor.bytes());
    std::transform(raw.begin(), raw.end(), values.begin(), [](auto value) { return static_cast<float>(value); });
  };
  tensor.dtype == DType::kFloat16 ? widen(Float16{}) : widen(BFloat16{});
  return values;
}

}  // namespace trireme
