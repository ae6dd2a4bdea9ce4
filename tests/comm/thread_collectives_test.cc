#include <thread>

#include "comm/collective_cases.h"
#include "comm/device_array.h"
#include "comm/off_host_device.h"
#include "comm/thread_communicator.h"

namespace trireme {
namespace {

using CaseAndSize = std::tuple<CollectiveCase, int>;
class ThreadCollectives : public testing::TestWithParam<CaseAndSize> {};

TEST_P(ThreadCollectives, AgreeWithSerialResults) {
  const auto& [collective_case, ranks] = GetParam();
  EXPECT_NO_THROW(RunThreadRanks(ranks, {.kind = "cpu"}, collective_case.run));
}

std::string NameOf(const testing::TestParamInfo<CaseAndSize>& info) {
  return std::string(std::get<0>(info.param).name) + "Of" + std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadCollectives,
                         testing::Combine(testing::ValuesIn(CollectiveCases().begin(), CollectiveCases().end()),
                                          testing::Range(1, 9)),
                         NameOf);

// Every case with ranks whose device is not the host: the last to arrive does everything, after what all members had
// asked of their devices and before what they ask next; messages are staged.
class SharedDeviceCollectives : public testing::TestWithParam<CollectiveCase> {};

TEST_P(SharedDeviceCollectives, AgreeWithSerialResults) {
  constexpr int kRanks = 3;
  ThreadWorld world(kRanks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&world, rank] {
      OffHostDevice device;
      ThreadCommunicator communicator(world, world.root(), rank, device);
      RankContext context{device, communicator};
      try {
        GetParam().run(context);
        EXPECT_GT(device.waits + device.copies, 0);
      } catch (const std::exception& error) {
        world.Abort(rank, error.what());
      }
    });
  }
  threads.clear();
  EXPECT_NO_THROW(world.ThrowIfAborted());
}

INSTANTIATE_TEST_SUITE_P(Cases, SharedDeviceCollectives,
                         testing::ValuesIn(CollectiveCases().begin(), CollectiveCases().end()),
                         [](const auto& instance) { return std::string(instance.param.name); });

// Members that spin before they sleep meet in the same order, whether the others come soon or late.
TEST(ThreadCommunicator, MembersThatSpinFirstSumAlike) {
  constexpr int kRanks = 4;
  ThreadWorld world(kRanks, WaitStyle::kSpinFirst);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&world, rank] {
      const std::unique_ptr<Device> device = MakeCpuDevice({.kind = "cpu"});
      ThreadCommunicator communicator(world, world.root(), rank, *device);
      std::vector<float> values(5000);
      for (int round = 0; round < 50; ++round) {
        std::fill(values.begin(), values.end(), static_cast<float>(rank + round));
        communicator.AllReduce({values.data(), DType::kFloat32, {5000}}, ReduceOp::kSum);
        EXPECT_EQ(values.front(), static_cast<float>(6 + kRanks * round));
        EXPECT_EQ(values.back(), values.front());
        if (round % 10 == rank) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      }
    });
  }
  threads.clear();
  EXPECT_NO_THROW(world.ThrowIfAborted());
}

TEST(ThreadCommunicator, ManyMoreRanksThanCoresWorkTogether) {
  RunThreadRanks(64, {.kind = "cpu"}, [](RankContext& context) {
    Communicator& world = context.world;
    const auto row = world.Split("row", world.rank() / 8, 0);
    const auto column = world.Split("column", world.rank() % 8, 0);
    for (int step = 0; step < 20; ++step) {
      const DeviceArray<float> array(context.device, std::vector<float>(1000, 1));
      row->AllReduce(array.tensor());
      column->AllReduce(array.tensor());
      ASSERT_EQ(array.Read().back(), 64);
      world.Send(array.tensor(), (world.rank() + 1) % 64, step);
      world.Receive(array.tensor(), (world.rank() + 63) % 64, step);
      world.Barrier();
    }
  });
}

TEST(ThreadCommunicator, OverlappedGroupsKeepTheirOwnPace) {
  RunThreadRanks(4, {.kind = "cpu"}, [](RankContext& context) {
    const auto pair = context.world.Split("pair", context.world.rank() / 2, 0);
    const int repetitions = context.world.rank() < 2 ? 500 : 5;
    for (int i = 0; i < repetitions; ++i) {
      const DeviceArray<float> array(context.device, std::vector<float>(5000, 1));
      pair->AllReduce(array.tensor());
      ASSERT_EQ(array.Read().front(), 2);
    }
    context.world.Barrier();
  });
}

TEST(ThreadCommunicator, ResultsDoNotDependOnWhoComesLast) {
  std::vector<std::vector<float>> results(3);
  for (int late = 0; late < 3; ++late) {
    RunThreadRanks(3, {.kind = "cpu"}, [&](RankContext& context) {
      std::vector<float> values;
      for (int i = 0; i < 10000; ++i) {
        values.push_back(1.0F / static_cast<float>(i + 1 + 77 * context.world.rank()));
      }
      if (context.world.rank() == late) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      const DeviceArray<float> array(context.device, values);
      context.world.AllReduce(array.tensor().Range(0, 100));
      context.world.AllReduce(array.tensor());
      if (context.world.rank() == 1) {
        results[static_cast<std::size_t>(late)] = array.Read();
      }
    });
  }
  EXPECT_TRUE(SameBits(results[0], results[1]));
  EXPECT_TRUE(SameBits(results[0], results[2]));
}

}  // namespace
}  // namespace trireme
