// Thread ranks that share one GPU over NCCL: collectives and messages against serial results, recordings, and how ranks
// end when one of them fails, skips a collective or asks for another one. Needs NCCL 2.30 or later.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "comm/collective_cases.h"
#include "comm/device_array.h"
#include "comm/grid_comms.h"
#include "operate/flight_report.h"
#include "operate/training_loop.h"
#include "operate/training_observer.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Before CUDA and NCCL start.
[[maybe_unused]] const int kEnabled = setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);

const DeviceOptions kCuda = {.kind = "cuda"};

using CaseAndSize = std::tuple<CollectiveCase, int>;
class NcclCollectives : public testing::TestWithParam<CaseAndSize> {};

TEST_P(NcclCollectives, AgreeWithSerialResults) {
  const auto& [collective_case, ranks] = GetParam();
  EXPECT_NO_THROW(RunThreadRanks(ranks, kCuda, collective_case.run));
}

INSTANTIATE_TEST_SUITE_P(Sizes, NcclCollectives,
                         testing::Combine(testing::ValuesIn(CollectiveCases().begin(), CollectiveCases().end()),
                                          testing::Values(2, 4, 8)),
                         [](const auto& instance) {
                           return std::string(std::get<0>(instance.param).name) + "Of" +
                                  std::to_string(std::get<1>(instance.param));
                         });

class NcclSizes : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, NcclSizes, testing::Values(2, 4, 8));

TEST_P(NcclSizes, RecordedCollectivesCountAndSumAsPlainOnes) {
  RunThreadRanks(GetParam(), kCuda, [](RankContext& context) {
    const auto group = context.world.Split("group", 0, context.world.rank());
    const DeviceArray<float> array(context.device, std::vector<float>(1000, 1));
    std::vector<CollectiveCall> calls;
    const auto work = [&] {
      group->set_recorder(context.device.IsRecording() ? &calls : nullptr);
      group->AllReduce(array.tensor());
      context.device.ops().Scale(array.tensor(), 0.5F);
      group->set_recorder(nullptr);
    };
    const auto meet = [&] {
      context.device.Synchronize();
      group->Verify();
    };
    context.device.set_repeat_records(false);
    context.device.Repeat(1, work);  // loads kernels
    meet();
    ASSERT_TRUE(context.device.Record(1, work));  // waits for the GPU, where no rank may have work then
    meet();
    constexpr int kTimes = 6;
    float expected = static_cast<float>(context.world.size()) / 2;
    for (int i = 1; i < kTimes; ++i) {
      const Event begin = context.device.RecordEvent();
      context.device.Repeat(1, work);
      group->Replay(calls, begin, context.device.RecordEvent(), 0);
      expected *= static_cast<float>(context.world.size()) / 2;
    }
    group->Verify();
    EXPECT_EQ(array.Read(), std::vector<float>(1000, expected));
    EXPECT_EQ(group->traffic().calls[static_cast<std::size_t>(CollectiveKind::kAllReduce)], kTimes);
    context.device.ForgetRepeats();
  });
}

// What RunThreadRanks throws; "" when it does not.
std::string FailureOf(int ranks, const std::function<void(RankContext&)>& body) {
  try {
    RunThreadRanks(ranks, kCuda, body);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_P(NcclSizes, AnErrorOnOneRankEndsRanksWhoseDevicesWaitForIt) {
  const std::string message = FailureOf(GetParam(), [](RankContext& context) {
    const DeviceArray<float> array(context.device, std::vector<float>(1000, 1));
    context.world.AllReduce(array.tensor());
    array.Read();
    if (context.world.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      Fail("no space left in tank 7");
    }
    context.world.AllReduce(array.tensor());
    array.Read();
    context.world.CheckAborted();
  });
  EXPECT_EQ(message, "rank 1: no space left in tank 7");
}

TEST_P(NcclSizes, ACallOfAnotherSizeIsRefusedAndNamesBoth) {
  const std::string message = FailureOf(GetParam(), [](RankContext& context) {
    const DeviceArray<float> array(context.device, std::vector<float>(1000, 1));
    context.world.AllReduce(context.world.rank() == 1 ? array.tensor().Range(0, 10) : array.tensor());
    context.world.Verify();
  });
  EXPECT_THAT(message, AllOf(HasSubstr("called all_reduce of 1000 fp32 (sum)"),
                             HasSubstr("rank 1 called all_reduce of 10 fp32 (sum)")));
}

RunConfig SmallRun(const std::vector<std::string>& more) {
  std::vector<std::string> keys = {
      "model.layers=2",        "model.hidden=64",           "model.heads=4",     "model.sequence=16",
      "model.vocabulary=128",  "layout.micro_batch=1",      "batch.global=8",    "train.steps=20",
      "train.device=\"cuda\"", "data.source=\"synthetic\"", "checkpoint.every=0"};
  keys.insert(keys.end(), more.begin(), more.end());
  return ParseRecipe("", "nccl.toml", keys).config;
}

// How many times a test does its work.
int Times(int usual) {
  const char* const wanted = std::getenv("TRIREME_NCCL_TIMES");
  return wanted == nullptr ? usual : std::atoi(wanted);
}

struct Drilled {
  const char* name;
  std::vector<std::string> keys;
};

constexpr int kSteps = 10;

// Losses of `times` trainings, one after another; each makes its groups, memory and recordings anew.
std::vector<double> LossesOf(const RunConfig& config, int times) {
  const auto source = OpenRunSource(config, "train");
  std::vector<double> losses;
  RunThreadRanks(config.layout.ranks(), kCuda, [&](RankContext& context) {
    for (int time = 0; time < times; ++time) {
      Trainer trainer(config, context, {.train = source.get(), .validation = nullptr});
      for (int step = 0; step < kSteps; ++step) {
        const double loss = trainer.Step().loss;
        if (context.world.rank() == 0) {
          losses.push_back(loss);
        }
      }
    }
  });
  return losses;
}

// recipes/quickstart.toml's model in fp32.
RunConfig Quickstart(const std::vector<std::string>& more) {
  std::vector<std::string> keys = {"model.layers=4",         "model.hidden=128",
                                   "model.heads=4",          "model.sequence=128",
                                   "model.vocabulary=2048",  "layout.micro_batch=2",
                                   "batch.global=16",        "train.steps=10",
                                   "train.device=\"cuda\"",  "optimizer.learning_rate=3e-3",
                                   "optimizer.epsilon=1e-3", "data.source=\"synthetic\""};
  keys.insert(keys.end(), more.begin(), more.end());
  return ParseRecipe("", "nccl.toml", keys).config;
}

class NcclLayouts : public testing::TestWithParam<Drilled> {};
INSTANTIATE_TEST_SUITE_P(
    Rows, NcclLayouts,
    testing::Values(Drilled{"Data2", {"layout.data=2"}}, Drilled{"Data2Zero1", {"layout.data=2", "layout.zero=1"}},
                    Drilled{"Data2Zero2", {"layout.data=2", "layout.zero=2"}},
                    Drilled{"Data2Zero3", {"layout.data=2", "layout.zero=3"}}, Drilled{"Data4", {"layout.data=4"}},
                    Drilled{"Data8", {"layout.data=8"}}, Drilled{"Data8Zero3", {"layout.data=8", "layout.zero=3"}},
                    Drilled{"Tensor2", {"layout.tensor=2"}}, Drilled{"Tensor4", {"layout.tensor=4"}},
                    Drilled{"Tensor4SequenceParallel", {"layout.tensor=4", "layout.sequence_parallel=true"}},
                    Drilled{"Tensor2Plain", {"layout.tensor=2", "train.graphs=false"}},
                    Drilled{"Tensor2Data2", {"layout.tensor=2", "layout.data=2"}},
                    Drilled{"Tensor2Data4Zero1", {"layout.tensor=2", "layout.data=4", "layout.zero=1"}},
                    Drilled{"Pipeline2", {"layout.pipeline=2"}}, Drilled{"Pipeline4", {"layout.pipeline=4"}},
                    Drilled{"Pipeline2Data2", {"layout.pipeline=2", "layout.data=2"}},
                    Drilled{"Tensor2Pipeline2", {"layout.tensor=2", "layout.pipeline=2"}},
                    Drilled{"Tensor2Pipeline2Plain", {"layout.tensor=2", "layout.pipeline=2", "train.graphs=false"}},
                    Drilled{"Tensor2Pipeline2Data2", {"layout.tensor=2", "layout.pipeline=2", "layout.data=2"}},
                    Drilled{"Tensor2Pipeline4", {"layout.tensor=2", "layout.pipeline=4"}},
                    Drilled{"Interleaved", {"layout.pipeline=2", "layout.schedule=\"interleaved\"", "layout.chunks=2"}},
                    Drilled{"ZeroBubble", {"layout.pipeline=2", "layout.schedule=\"zero_bubble\""}},
                    Drilled{"Gpipe", {"layout.pipeline=2", "layout.schedule=\"gpipe\""}}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST_P(NcclLayouts, TrainAsOneRankEveryTime) {
  const RunConfig config = Quickstart(GetParam().keys);
  RunConfig one = config;
  one.layout = ParallelLayout{};
  one.layout.micro_batch = config.layout.micro_batch;
  const std::vector<double> expected = LossesOf(one, 1);
  const int times = Times(1);
  const std::vector<double> losses = LossesOf(config, times);
  ASSERT_EQ(losses.size(), expected.size() * static_cast<std::size_t>(times));
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const double right = expected[i % kSteps];
    EXPECT_NEAR(losses[i], right, 1e-5 * right) << "step " << i % kSteps + 1 << ", time " << i / kSteps + 1;
  }
}

// Libraries load their kernels in the first step and wait until the GPU is idle: no rank may then wait there for
// another. With two micro batches the gradients of one layer are reduced while products that add are met for the first
// time in another; messages of 16 MB are more than NCCL buffers.
TEST(NcclFirstStep, LoadsKernelsWhileNoRankWaitsOnTheDevice) {
  for (const std::string dtype : {"bf16", "fp8"}) {
    const std::vector<std::string> shape = {
        "model.hidden=1024",    "model.heads=8",  "model.sequence=1024",         "layout.micro_batch=8",
        "train.dtype=" + dtype, "model.layers=2", "optimizer.learning_rate=1e-3"};
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.end(), shape.begin(), shape.end());
      return Quickstart(more);
    };
    const std::vector<double> expected = LossesOf(with({"batch.global=32"}), 1);
    for (const char* axis : {"data", "tensor", "pipeline"}) {
      const std::vector<double> losses = LossesOf(with({fmt::format("layout.{}=2", axis), "batch.global=32"}), 1);
      ASSERT_EQ(losses.size(), expected.size());
      for (std::size_t step = 0; step < losses.size(); ++step) {
        EXPECT_NEAR(losses[step], expected[step], 0.01 * expected[step]) << dtype << ", " << axis << " 2, " << step;
      }
    }
  }
}

// To make a communicator may wait for the whole GPU, where other ranks' groups move their first data.
TEST(NcclGroups, AreMadeAgainAndAgain) {
  const std::vector<std::vector<std::string>> layouts = {
      {"layout.tensor=2", "layout.pipeline=2"},
      {"layout.tensor=2", "layout.pipeline=2", "layout.context=2"},
      {"layout.data=2", "layout.context=4", "layout.context_kind=\"ulysses+ring\"", "layout.ulysses=2"}};
  for (const std::vector<std::string>& keys : layouts) {
    const ParallelLayout layout = SmallRun(keys).layout;
    RunThreadRanks(layout.ranks(), kCuda, [&](RankContext& context) {
      for (int time = 0; time < Times(3); ++time) {
        GridComms comms(context.world, layout, layout.pipeline - 1, 2);
        comms.pipeline().ConnectNeighbours(Neighbours::kLine);
        comms.context().PrepareAllToAll();
        const DeviceArray<float> array(context.device, std::vector<float>(1000, 1));
        float expected = 1;
        for (Communicator* group : {&comms.tensor(), &comms.context(), &comms.data(), &context.world}) {
          group->AllReduce(array.tensor());
          expected *= static_cast<float>(group->size());
        }
        EXPECT_EQ(array.Read(), std::vector<float>(1000, expected));
        Communicator& pipeline = comms.pipeline();
        if (pipeline.rank() + 1 < pipeline.size()) {
          pipeline.Send(array.tensor(), pipeline.rank() + 1, 0);
        } else if (pipeline.size() > 1) {
          const DeviceArray<float> received(context.device, 1000);
          pipeline.Receive(received.tensor(), pipeline.rank() - 1, 0);
          EXPECT_EQ(received.Read(), std::vector<float>(1000, expected));
        }
        context.world.Verify();
      }
    });
  }
}

class NcclDrills : public testing::TestWithParam<Drilled> {};
INSTANTIATE_TEST_SUITE_P(Layouts, NcclDrills,
                         testing::Values(Drilled{"Tensor2", {"layout.tensor=2"}}, Drilled{"Data2", {"layout.data=2"}},
                                         Drilled{"Pipeline2", {"layout.pipeline=2"}},
                                         Drilled{"Zero3", {"layout.data=4", "layout.zero=3"}},
                                         Drilled{"Tensor2Pipeline2", {"layout.tensor=2", "layout.pipeline=2"}}),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST_P(NcclDrills, ARankThatThrowsEndsTheRunWithItsMessage) {
  const RunConfig config = SmallRun(GetParam().keys);
  const auto source = OpenRunSource(config, "train");
  for (const std::string phase : {"forward", "backward", "reduce", "update"}) {
    const std::string folder = testing::TempDir() + "/nccl-throw-" + GetParam().name + phase;
    std::filesystem::remove_all(folder);
    const std::string message = FailureOf(config.layout.ranks(), [&](RankContext& context) {
      RunTraining(config, context, {.train = source.get(), .validation = nullptr},
                  {.run_folder = folder, .drill = ParseDrill("rank=1,step=3,what=throw,phase=" + phase)}, nullptr);
    });
    EXPECT_EQ(message, "rank 1: a drill: --inject what=throw") << phase;
    EXPECT_EQ(ReadFlight(folder + "/flight").suspects, std::vector<int>{1}) << phase;
  }
}

class SlowToStart : public TrainingObserver {
 public:
  void Started(const Trainer& /*trainer*/, std::int64_t /*resumed_step*/) override {
    std::this_thread::sleep_for(std::chrono::seconds(2));
  }
};

TEST_P(NcclDrills, ARankThatIsLateForTheFirstStepIsWaitedFor) {
  const RunConfig config = SmallRun(GetParam().keys);
  const auto source = OpenRunSource(config, "train");
  SlowToStart observer;
  std::atomic<std::int64_t> step = 0;
  RunThreadRanks(config.layout.ranks(), kCuda, [&](RankContext& context) {
    const LoopResult result =
        RunTraining(config, context, {.train = source.get(), .validation = nullptr}, {}, &observer);
    if (context.world.rank() == 0) {
      step = result.step;
    }
  });
  EXPECT_EQ(step, config.train.steps);
}

TEST(NcclWatch, ARankThatSkipsACollectiveIsNamedAndARequestEndsTheRun) {
  testing::internal::CaptureStderr();
  std::atomic<bool> over = false;
  const std::string message = FailureOf(2, [&](RankContext& context) {
    const DeviceArray<float> array(context.device, std::vector<float>(1000, 1));
    context.world.AllReduce(array.tensor());
    array.Read();
    if (context.world.rank() == 1) {
      while (!over) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      context.world.CheckAborted();
    }
    context.world.AllReduce(array.tensor());
    std::jthread asks;
    if (context.world.rank() == 0) {
      asks = std::jthread([&] {
        std::this_thread::sleep_for(std::chrono::seconds(9));  // after it was named
        context.world.ShortenTimeouts();
      });
    }
    context.device.Synchronize();
    over = true;
    context.world.CheckAborted();
  });
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("number 1 of group 'world' of ranks 0, 1"));
  EXPECT_THAT(said, HasSubstr("rank 1 has not come to it (its last there is number 0)"));
  EXPECT_THAT(message, HasSubstr("the job was asked to end"));
}

}  // namespace
}  // namespace trireme
