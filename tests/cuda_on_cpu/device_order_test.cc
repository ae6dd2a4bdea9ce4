// What the device promises of memory and streams, where only the order of work tells.
#include <gtest/gtest.h>

#include "device/device.h"

namespace trireme::cuda_on_cpu {
namespace {

TEST(Device, FreedMemoryIsGivenOutAgainWhenItsWorkIsDone) {
  const auto device = MakeDevice({.kind = "cuda"});
  constexpr std::int64_t kCount = 256;
  void* const first = device->Allocate(kCount * 4);
  device->ops().Fill({first, DType::kFloat32, {kCount}}, 1);
  device->Free(first);
  void* const second = device->Allocate(kCount * 4);
  EXPECT_EQ(second, first);
  // Another stream's first work waits for nothing.
  const Event filled = device->OnStream(kFromHostStream, nullptr, [&] {
    device->ops().Fill({second, DType::kFloat32, {kCount}}, 2);
  });
  device->StreamWait(filled);
  device->Free(second);
}

}  // namespace
}  // namespace trireme::cuda_on_cpu
