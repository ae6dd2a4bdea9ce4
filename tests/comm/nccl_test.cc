#include <gtest/gtest.h>

#include <cmath>

#include "comm/device_array.h"
#include "comm/nccl_communicator.h"
#include "comm/rank_runner.h"
#include "operate/training_loop.h"

namespace trireme {
namespace {

// Runs `body` with a communicator of one rank whose collectives go through NCCL.
void RunAlone(const std::function<void(RankContext&)>& body) {
  RunThreadRanks(1, {.kind = "cpu"}, [&](RankContext& host) {
    const auto gpu = MakeDevice({.kind = "cuda"});
    const auto alone =
        MakeNcclCommunicator(host.world.Split("alone", 0, 0), *gpu, MakeNcclSession({}, {}), NcclAlone::kEverything);
    RankContext context{*gpu, *alone};
    body(context);
  });
}

// Bytes in device memory, read back.
class Bytes {
 public:
  Bytes(Device& device, DType dtype, std::int64_t count, char value)
      : device_(device), tensor_{device.Allocate(count * SizeOf(dtype)), dtype, {count}} {
    const std::vector<char> values(static_cast<std::size_t>(tensor_.bytes()), value);
    device_.CopyFromHost(tensor_.data, values.data(), tensor_.bytes());
  }
  ~Bytes() { device_.Free(tensor_.data); }
  const Tensor& tensor() const { return tensor_; }
  bool AreAll(char value) const {
    std::vector<char> read(static_cast<std::size_t>(tensor_.bytes()));
    device_.CopyToHost(read.data(), tensor_.data, tensor_.bytes());
    return read == std::vector<char>(read.size(), value);
  }

 private:
  Device& device_;
  Tensor tensor_;
};

TEST(Nccl, EveryCollectiveWorksForOneRank) {
  RunAlone([](RankContext& context) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt32, DType::kInt64}) {
      const Bytes in(context.device, dtype, 1000, 1);
      context.world.AllReduce(in.tensor());
      context.world.AllReduce(in.tensor(), ReduceOp::kMax);
      context.world.Broadcast(in.tensor(), 0);
      EXPECT_TRUE(in.AreAll(1)) << Name(dtype);
      const std::function<void(const Tensor&)> moves[] = {
          [&](const Tensor& out) { context.world.AllGather(in.tensor(), out); },
          [&](const Tensor& out) { context.world.ReduceScatter(in.tensor(), out); },
          [&](const Tensor& out) { context.world.AllToAll(in.tensor(), out); }};
      for (const auto& move : moves) {
        const Bytes out(context.device, dtype, 1000, 0);
        move(out.tensor());
        EXPECT_TRUE(out.AreAll(1)) << Name(dtype);
      }
    }
    context.world.Barrier();
  });
}

TEST(Nccl, CollectivesInAStreamOfTheirOwnKeepTheirPlaceInTheOrder) {
  RunAlone([](RankContext& context) {
    Device& device = context.device;
    const DeviceArray<float> array(device, std::vector<float>(1 << 20, 0));
    for (int i = 1; i <= 20; ++i) {
      device.ops().Fill(array.tensor(), static_cast<float>(i));
      const Event done =
          device.OnStream(kCollectiveStream, device.RecordEvent(), [&] { context.world.AllReduce(array.tensor()); });
      device.StreamWait(done);
      device.ops().Scale(array.tensor(), 2);
      EXPECT_EQ(array.Read().back(), static_cast<float>(2 * i));
      EXPECT_TRUE(device.IsReached(done));
    }
  });
}

TEST(Nccl, CollectivesAreRecordedWithTheWorkAroundThem) {
  RunAlone([](RankContext& context) {
    const DeviceArray<float> array(context.device, std::vector<float>{1});
    std::vector<CollectiveCall> calls;
    for (int i = 0; i < 5; ++i) {
      context.device.Repeat(1, [&] {
        context.world.set_recorder(context.device.IsRecording() ? &calls : nullptr);
        context.device.ops().Scale(array.tensor(), 2);
        context.world.AllReduce(array.tensor());
        context.world.set_recorder(nullptr);
      });
    }
    EXPECT_EQ(array.Read(), std::vector<float>{32});
    EXPECT_EQ(calls.size(), 1U);
    context.device.ForgetRepeats();
  });
}

std::vector<double> LossesOf(const RunConfig& config, RankContext& context) {
  const auto source = OpenRunSource(config, "train");
  Trainer trainer(config, context, {.train = source.get(), .validation = nullptr});
  std::vector<double> losses;
  for (int step = 0; step < 6; ++step) {
    losses.push_back(trainer.Step().loss);
  }
  return losses;
}

TEST(Nccl, RecordedStepsOverItTrainAsPlainOnesWithoutIt) {
  const std::vector<std::string> keys = {"model.layers=2",           "model.hidden=64",      "model.heads=4",
                                         "model.sequence=16",        "model.vocabulary=128", "layout.micro_batch=2",
                                         "batch.global=4",           "train.steps=6",        "train.deterministic=true",
                                         "data.source=\"synthetic\""};
  const RunConfig config = ParseRecipe("", "nccl.toml", keys).config;
  std::vector<double> over_nccl;
  RunAlone([&](RankContext& context) { over_nccl = LossesOf(config, context); });
  RunConfig plain = config;
  plain.train.graphs = false;
  RunThreadRanks(1, {.kind = "cuda"}, [&](RankContext& context) {
    const std::vector<double> expected = LossesOf(plain, context);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(over_nccl[i], expected[i], 1e-4 * std::abs(expected[i])) << i;
    }
  });
}

TEST(Nccl, NamesTwoRanksOfOneGpu) {
  RunThreadRanks(2, {.kind = "cpu"}, [](RankContext& context) {
    const auto gpu = MakeDevice({.kind = "cuda", .local_rank = 0});
    const GpuSharing sharing = FindGpuSharing(context.world);
    EXPECT_TRUE(sharing.shared);
    EXPECT_EQ(sharing.message, "ranks 0 and 1 use one GPU");
  });
}

}  // namespace
}  // namespace trireme
