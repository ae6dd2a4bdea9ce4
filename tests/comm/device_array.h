// A host vector's copy in a device's memory, for tests over any device.
#pragma once

#include <cstring>
#include <type_traits>
#include <vector>

#include "device/device.h"

namespace trireme {

template <typename T>
constexpr DType DTypeOf() {
  if constexpr (std::is_same_v<T, float>) {
    return DType::kFloat32;
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return DType::kBFloat16;
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return DType::kInt32;
  } else {
    static_assert(std::is_same_v<T, std::int64_t>);
    return DType::kInt64;
  }
}

template <typename T>
class DeviceArray {
 public:
  DeviceArray(Device& device, const std::vector<T>& values)
      : device_(device), count_(static_cast<std::int64_t>(values.size())) {
    data_ = device_.Allocate(bytes());
    device_.CopyFromHost(data_, values.data(), bytes());
  }
  DeviceArray(Device& device, std::int64_t count)
      : DeviceArray(device, std::vector<T>(static_cast<std::size_t>(count))) {}
  ~DeviceArray() { device_.Free(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  Tensor tensor() const { return {data_, DTypeOf<T>(), {count_}}; }
  std::vector<T> Read() const {
    std::vector<T> values(static_cast<std::size_t>(count_));
    device_.CopyToHost(values.data(), data_, bytes());
    return values;
  }

 private:
  std::int64_t bytes() const { return count_ * static_cast<std::int64_t>(sizeof(T)); }

  Device& device_;
  std::int64_t count_ = 0;
  void* data_ = nullptr;
};

// Equal bit for bit.
template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace trireme
