#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "base/random.h"
#include "optim/optimizer.h"
#include "train/late_device.h"
#include "train/owned_state.h"

namespace trireme {
namespace {

constexpr std::array<std::int64_t, 3> kShards = {640, 64, 1024};

// Weights, gradients and state after a few updates.
std::vector<std::vector<float>> Updated(Device& device, DType dtype, const OptimizerOptions& options) {
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
    shard.ranges = {{.first = 0, .count = 17},
                    {.first = 17, .count = count - 41, .weight_decay = options.weight_decay}};
    shards.push_back(shard);
  }
  Optimizer optimizer(arena, options, shards);
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
    OptimizerOptions options{.weight_decay = 0.1F, .moments = moments};
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

// The update as AdamW's paper writes it (Loshchilov and Hutter 2019), in double precision.
TEST(AdamW, UpdatesAreThoseOfThePaper) {
  const auto device = MakeCpuDevice({});
  MemoryUse planned;
  planned.bytes.fill(1 << 20);
  Arena arena(*device, planned);
  constexpr std::int64_t kCount = 100;
  const OptimizerOptions options{.beta1 = 0.8F, .beta2 = 0.97F, .epsilon = 1e-3F, .weight_decay = 0.2F};
  const Tensor weight = arena.Allocate(MemoryKind::kWeights, DType::kFloat32, {kCount});
  const Tensor gradient = arena.Allocate(MemoryKind::kGradients, DType::kFloat32, {kCount});
  // Elements 0 to 39 decay, 40 to 89 do not, the rest is padding.
  Optimizer optimizer(
      arena, options,
      {{.weight = weight,
        .gradient = gradient,
        .ranges = {{.first = 0, .count = 40, .weight_decay = options.weight_decay}, {.first = 40, .count = 50}}}});
  std::vector<double> expected(kCount);
  std::vector<double> first(kCount);
  std::vector<double> second(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    expected[i] = weight.as<float>()[i] = RandomUniform(1, i) - 0.5F;
  }
  for (int step = 1; step <= 5; ++step) {
    const double rate = 0.01 * step;
    const double scale = 1.0 / step;
    for (std::size_t i = 0; i < kCount; ++i) {
      gradient.as<float>()[i] = RandomUniform(static_cast<std::uint64_t>(step) + 1, i) - 0.4F;
    }
    optimizer.Step(static_cast<float>(rate), static_cast<float>(scale), step);
    for (std::size_t i = 0; i < 90; ++i) {
      const double g = gradient.as<float>()[i] * scale;
      first[i] = options.beta1 * first[i] + (1 - static_cast<double>(options.beta1)) * g;
      second[i] = options.beta2 * second[i] + (1 - static_cast<double>(options.beta2)) * g * g;
      const double m = first[i] / (1 - std::pow(options.beta1, step));
      const double v = second[i] / (1 - std::pow(options.beta2, step));
      expected[i] -= rate * (m / (std::sqrt(v) + options.epsilon) + (i < 40 ? options.weight_decay * expected[i] : 0));
    }
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_NEAR(weight.as<float>()[i], expected[i], 1e-6) << i;
    ASSERT_NEAR(optimizer.first_moment(0).as<float>()[i], first[i], 1e-6) << i;
    ASSERT_NEAR(optimizer.second_moment(0).as<float>()[i], second[i], 1e-6) << i;
  }
}

// A rate so small that bf16 alone would lose every update: the lower halves keep them.
TEST(AdamW, UpdatesTooSmallForBFloat16AreKept) {
  const auto device = MakeCpuDevice({});
  MemoryUse planned;
  planned.bytes.fill(1 << 20);
  Arena arena(*device, planned);
  const Tensor weight = arena.Allocate(MemoryKind::kWeights, DType::kBFloat16, {64});
  const Tensor gradient = arena.Allocate(MemoryKind::kGradients, DType::kFloat32, {64});
  for (std::int64_t i = 0; i < 64; ++i) {
    weight.as<BFloat16>()[i] = BFloat16(1.0F);
  }
  Optimizer optimizer(arena, {}, {{.weight = weight, .gradient = gradient, .ranges = {{.first = 0, .count = 64}}}});
  for (int step = 1; step <= 100; ++step) {
    device->ops().Fill(gradient, 1);
    optimizer.Step(1e-4F, 1, step);
  }
  optimizer.JoinMasters();
  for (std::int64_t i = 0; i < 64; ++i) {
    ASSERT_NEAR(optimizer.master(0).as<float>()[i], 0.99F, 1e-5);
  }
}

}  // namespace
}  // namespace trireme
