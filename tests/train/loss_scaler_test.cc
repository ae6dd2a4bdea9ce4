#include "train/loss_scaler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace trireme {
namespace {

// What the Error says that a call throws, "" when it throws none.
template <typename Call>
std::string RefusalOf(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TrainConfig Half() {
  TrainConfig config;
  config.dtype = "fp16";
  config.initial_loss_scale = 1024;
  config.min_loss_scale = 256;
  config.loss_scale_window = 3;
  config.hysteresis = 2;
  return config;
}

// The scale after each step; "x" is an overflow, "." a good step.
std::vector<double> Scales(LossScaler& scaler, const std::string& steps) {
  std::vector<double> scales;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    scaler.Update(static_cast<std::int64_t>(i) + 1, steps[i] == 'x');
    scales.push_back(scaler.scale());
  }
  return scales;
}

TEST(LossScaler, IsOneForEveryOtherType) {
  for (const char* dtype : {"fp32", "tf32", "bf16", "fp8"}) {
    TrainConfig config = Half();
    config.dtype = dtype;
    LossScaler scaler(config);
    EXPECT_FALSE(scaler.dynamic());
    EXPECT_THAT(Scales(scaler, "xx......"), testing::Each(1.0));
  }
}

TEST(LossScaler, AConstantScaleStays) {
  TrainConfig config = Half();
  config.loss_scale = 128;
  LossScaler scaler(config);
  EXPECT_FALSE(scaler.dynamic());
  EXPECT_THAT(Scales(scaler, "xxxx...."), testing::Each(128.0));
}

// The numbers that Megatron-LM's DynamicGradScaler gives for the same settings and steps.
TEST(LossScaler, FollowsTheRuleOfMegatron) {
  LossScaler scaler(Half());
  EXPECT_THAT(Scales(scaler, "..x...x.xx...x"),
              testing::ElementsAre(1024, 1024,        // good
                                   1024,              // the first overflow is forgiven
                                   1024, 1024, 2048,  // three good steps in a row
                                   2048,              // forgiven again
                                   2048, 1024, 512,   // the second and each one after it lower the scale
                                   512, 512, 1024,    // grows, and the hysteresis is full
                                   1024));
}

TEST(LossScaler, FactorsAreTheRecipes) {
  TrainConfig config = Half();
  config.loss_scale_growth = 4;
  config.loss_scale_backoff = 0.25;
  config.hysteresis = 1;
  LossScaler scaler(config);
  EXPECT_THAT(Scales(scaler, "...x"), testing::ElementsAre(1024, 1024, 4096, 1024));
}

TEST(LossScaler, StopsWhereTheMinimumWouldBePassed) {
  LossScaler scaler(Half());
  EXPECT_THAT(Scales(scaler, "xxx"), testing::ElementsAre(1024, 512, 256));
  EXPECT_THAT(RefusalOf([&] { scaler.Update(7, true); }),
              testing::AllOf(testing::HasSubstr("step 7"), testing::HasSubstr("loss scale of 256"),
                             testing::HasSubstr("train.min_loss_scale = 256"), testing::HasSubstr("bf16")));
}

TEST(LossScaler, TheLastLoweringEndsAtTheMinimum) {
  TrainConfig config = Half();
  config.min_loss_scale = 700;
  LossScaler scaler(config);
  EXPECT_THAT(Scales(scaler, "xx"), testing::ElementsAre(1024, 700));
}

TEST(LossScaler, GoesOnFromASavedState) {
  const std::string steps = "..x.x....x..xx....x";
  LossScaler whole(Half());
  const std::vector<double> expected = Scales(whole, steps);
  for (std::size_t cut = 0; cut <= steps.size(); ++cut) {
    LossScaler first(Half());
    Scales(first, steps.substr(0, cut));
    LossScaler rest(Half());
    rest.Restore(first.state());
    EXPECT_THAT(Scales(rest, steps.substr(cut)),
                testing::ElementsAreArray(expected.begin() + static_cast<std::ptrdiff_t>(cut), expected.end()));
  }
}

TEST(LossScaler, StartsAfreshWhereNoStateWasSaved) {
  LossScaler scaler(Half());
  scaler.Restore({});
  EXPECT_EQ(scaler.scale(), 1024);
  EXPECT_THAT(RefusalOf([&] { scaler.Restore({.scale = -1, .good_steps = 0, .left = 1}); }),
              testing::HasSubstr("no such state"));
}

TEST(LossScaler, AShorterWindowGrowsAtItsNextGoodStep) {
  LossScaler before(Half());
  Scales(before, "..");
  TrainConfig config = Half();
  config.loss_scale_window = 2;
  LossScaler scaler(config);
  scaler.Restore(before.state());
  EXPECT_THAT(Scales(scaler, "."), testing::ElementsAre(2048));
}

}  // namespace
}  // namespace trireme
