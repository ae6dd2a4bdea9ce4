#include "device/paced/paced_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <vector>

#include "base/error.h"
#include "device/arena.h"
#include "device/paced_prices_stub.h"

namespace trireme {
namespace {

using testing::HasSubstr;

Tensor Bytes(Device& device, std::int64_t bytes) { return {device.Allocate(bytes), DType::kUInt8, {bytes}}; }

TEST(PacedDevice, OperationsTakeTheirPriceInSimulatedTime) {
  PacedDevice device(std::make_shared<RoundPrices>());
  const Tensor t = Bytes(device, 1000);
  device.ops().Fill(t, 0);
  EXPECT_EQ(device.Now(), 1);
  const Tensor a{t.data, DType::kFloat32, {4, 4}};
  device.ops().Matmul({.a = a, .b = a, .c = a});
  EXPECT_EQ(device.Now(), 2);
}

TEST(PacedDevice, HostRunsAheadUntilItWaits) {
  PacedDevice device(std::make_shared<RoundPrices>(0.25));
  const Tensor t = Bytes(device, 1000);
  device.ops().Fill(t, 0);
  device.ops().Fill(t, 0);
  EXPECT_EQ(device.clock().host(), 0.5);
  EXPECT_EQ(device.Now(), 2.25);  // the first is issued after 0.25, the second waits for it
  device.Synchronize();
  EXPECT_EQ(device.clock().host(), 2.25);
}

TEST(PacedDevice, StreamsOverlapAndEventsOrderThem) {
  PacedDevice device(std::make_shared<RoundPrices>());
  const Tensor t = Bytes(device, 1000);
  device.ops().Fill(t, 0);
  const Event aside = device.OnStream(kCollectiveStream, device.RecordEvent(), [&] {
    EXPECT_EQ(device.current_stream(), kCollectiveStream);
    device.ops().Copy(t, t);
  });
  device.ops().Fill(t, 0);
  EXPECT_EQ(device.Now(), 2);  // overlapped
  device.StreamWait(aside);
  EXPECT_EQ(device.Now(), 3);
  EXPECT_FALSE(device.IsReached(aside));
  device.SynchronizeEvent(aside);
  EXPECT_TRUE(device.IsReached(aside));
}

TEST(PacedDevice, PausesItsRank) {
  PacedDevice device(std::make_shared<RoundPrices>());
  device.Pause(0.5);
  EXPECT_EQ(device.Now(), 0.5);
}

TEST(PacedDevice, TakesNoMemoryForTensors) {
  PacedDevice device(std::make_shared<RoundPrices>());
  rusage before{};
  getrusage(RUSAGE_SELF, &before);
  MemoryUse planned;
  planned[MemoryKind::kWeights] = std::int64_t{8} << 30;
  planned[MemoryKind::kHost] = std::int64_t{8} << 30;
  Arena arena(device, planned);
  const Tensor weights = arena.Allocate(MemoryKind::kWeights, DType::kFloat32, {std::int64_t{2} << 30});
  const Tensor host = arena.Allocate(MemoryKind::kHost, DType::kFloat32, {std::int64_t{2} << 30});
  device.ops().Fill(weights, 1);
  device.ops().Copy(weights, host);
  const std::vector<char> large(1 << 20, 7);
  for (std::int64_t at = 0; at < 256; ++at) {
    device.CopyFromHost(weights.as<char>() + (at << 20), large.data(), 1 << 20);
  }
  rusage after{};
  getrusage(RUSAGE_SELF, &after);
  // Half of what was copied. Under qemu this is the emulator's memory, which grows by 24 bytes per page of address
  // space.
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 128 << 10);  // KiB
}

TEST(PacedDevice, KeepsTheFewValuesThatRanksExchange) {
  PacedDevice device(std::make_shared<RoundPrices>());
  const Tensor t = Bytes(device, 100'000);
  const std::array<float, 3> values = {1, 2, 3};
  device.CopyFromHost(t.as<char>() + 64, values.data(), sizeof(values));
  std::array<float, 4> read{5, 5, 5, 5};
  device.CopyToHost(read.data(), t.as<char>() + 64, sizeof(read));
  EXPECT_THAT(read, testing::ElementsAre(1, 2, 3, 0));
  const Tensor sums{t.data, DType::kFloat32, {2}};
  const Tensor losses{t.as<char>() + 4096, DType::kFloat32, {10}};
  device.ops().LossSum(losses, losses, sums);
  device.CopyToHost(read.data(), sums.data, 8);
  EXPECT_EQ(read[0], 0);
  EXPECT_EQ(read[1], 10);
}

TEST(PacedDevice, RefusesWhatItsDeviceCannotHold) {
  PacedDevice device(std::make_shared<RoundPrices>());
  device.Allocate(std::int64_t{1} << 39);
  try {
    device.Allocate((std::int64_t{1} << 39) + 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("out of memory: 512.0 GiB are wanted of a device of round numbers"));
  }
}

TEST(PacedDevice, HostMemoryGoesOverTheLink) {
  PacedDevice device(std::make_shared<RoundPrices>());
  const Tensor t = Bytes(device, 1000);
  const Tensor host{device.AllocateHost(3000), DType::kUInt8, {3000}};
  device.ops().Copy(t, host.Range(2000, 1000));
  EXPECT_EQ(device.Now(), 1);  // both ways at once
  device.ops().Scale({host.data, DType::kFloat32, {250}}, 2);
  EXPECT_EQ(device.Now(), 3);
}

}  // namespace
}  // namespace trireme
