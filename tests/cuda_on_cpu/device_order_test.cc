// What the device promises of memory and streams, where only the order of work tells.
#include <gtest/gtest.h>

#include <vector>

#include "device/device.h"
#include "device/workbench.h"

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

// Sums of two streams that wait for nothing of each other.
TEST(Device, StreamsHaveScratchMemoryOfTheirOwn) {
  const auto device = MakeDevice({.kind = "cuda"});
  Workbench bench(*device);
  const Tensor first = bench.Filled(DType::kFloat32, {5000}, 1);
  const Tensor second = bench.Filled(DType::kFloat32, {5000}, 2);
  const Tensor sums = bench.Filled(DType::kFloat32, {2}, 0);
  for (int i = 0; i < 2; ++i) {  // after the first time tables are there, and nothing waits
    device->ops().SumOfSquares({{first}}, sums.Rows(0, 1));
    const Event summed =
        device->OnStream(kFromHostStream, nullptr, [&] { device->ops().SumOfSquares({{second}}, sums.Rows(1, 1)); });
    device->StreamWait(summed);
  }
  EXPECT_EQ(bench.Read(sums), (std::vector<float>{5000, 20000}));
}

}  // namespace
}  // namespace trireme::cuda_on_cpu
