#include "optim/adamw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "base/random.h"
#include "train/late_device.h"
#include "train/owned_state.h"
#include "train/training_loop.h"

namespace trireme {
namespace {

constexpr std::array<std::int64_t, 3> kShards = {640, 64, 1024};

// Weights, gradients and state after a few updates.
std::vector<std::vector<float>> Updated(Device& device, DType dtype, const AdamWOptions& options) {
  MemoryUse planned;
  planned.bytes.fill(1 << 20);
  Arena arena(device, planned);
  std::vector<OwnedShard> shards;
  for (const std::int64_t count : kShards) {
    OwnedShard shard{
        .weight = arena.Allocate(options.host_weights ? MemoryKind::kHost : MemoryKind::kWeights, dtype, {count}),
        .gradient = arena.Allocate(MemoryKind::kGradients, DType::kFloat32, {count}),
        .ranges = {}};
    device.ops().Fill(shard.weight, 0);
    // The last 24 elements are padding.
    shard.ranges = {{.first = 0, .count = 17, .decays = false}, {.first = 17, .count = count - 41, .decays = true}};
    shards.push_back(shard);
  }
  AdamW optimizer(arena, options, shards);
  for (int step = 1; step <= 3; ++step) {
    for (const OwnedShard& shard : shards) {
      for (std::int64_t i = 0; i < shard.gradient.count(); ++i) {
        shard.gradient.as<float>()[i] = RandomUniform(static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(i));
      }
    }
    optimizer.Step(0.01F, 0.5F, step);
  }
  optimizer.JoinMasters();
  std::vector<std::vector<float>> values;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (const Tensor& tensor : {optimizer.master(i), optimizer.first_moment(i), optimizer.second_moment(i)}) {
      CopyValues(device, tensor, values.emplace_back(static_cast<std::size_t>(tensor.count())).data());
    }
  }
  EXPECT_EQ(arena.used()[MemoryKind::kHost] > 0, options.host_piece > 0);
  return values;
}

TEST(AdamW, PiecesThatPassThroughTheDeviceGiveTheBitsOfStateThatStays) {
  for (const auto& [dtype, moments] : {std::pair{DType::kFloat32, DType::kFloat32},
                                       {DType::kBFloat16, DType::kFloat32},
                                       {DType::kFloat32, DType::kBFloat16},
                                       {DType::kBFloat16, DType::kBFloat16}}) {
    AdamWOptions options{.weight_decay = 0.1F, .moments = moments};
    LateDevice device;
    const auto expected = Updated(device, dtype, options);
    EXPECT_EQ(device.tasks, 0);
    for (const std::int64_t piece : {64, 192, 640, 1024, 4096}) {
      for (const bool host_weights : {false, true}) {
        options.host_piece = piece;
        options.host_weights = host_weights;
        LateDevice late;
        EXPECT_EQ(Updated(late, dtype, options), expected)
            << Name(dtype) << ", moments " << Name(moments) << " in pieces of " << piece
            << (host_weights ? " with weights" : "");
        EXPECT_GT(late.tasks, 0);
      }
    }
  }
}

std::vector<double> LossesOn(Device& device, const std::vector<std::string>& keys) {
  std::vector<std::string> all = {"model.layers=3",   "model.hidden=16",      "model.heads=2",  "model.vocabulary=32",
                                  "model.sequence=8", "layout.micro_batch=1", "batch.global=2", "train.steps=4"};
  all.insert(all.end(), keys.begin(), keys.end());
  const RunConfig config = ParseRecipe("", "test.toml", all).config;
  const auto source = OpenRunSource(config, "train");
  std::vector<double> losses;
  RunThreadRanks(1, {.kind = "cpu"}, [&](RankContext& context) {
    RankContext own{device, context.world};
    Trainer trainer(config, own, {.train = source.get()});
    for (int step = 0; step < 4; ++step) {
      losses.push_back(trainer.Step().loss);
    }
  });
  return losses;
}

TEST(Offload, WeightsThatComeLateAreWaitedFor) {
  for (const std::string dtype : {"train.dtype=fp32", "train.dtype=bf16"}) {
    const auto cpu = MakeCpuDevice({});
    const std::vector<double> expected = LossesOn(*cpu, {dtype});
    for (const char* zero : {"layout.zero=0", "layout.zero=3"}) {
      LateDevice late;
      EXPECT_EQ(LossesOn(late, {dtype, zero, "layout.offload=full"}), expected) << dtype << ", " << zero;
      EXPECT_GT(late.tasks, 0);
    }
  }
}

}  // namespace
}  // namespace trireme
