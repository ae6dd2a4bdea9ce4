#include <gtest/gtest.h>

#include "run/run_config.h"

namespace trireme {
namespace {

OptimizerConfig Config(RateSchedule schedule) {
  return {.learning_rate = 2.0, .schedule = schedule, .warmup_samples = 100, .final_fraction = 0.1};
}

TEST(LearningRate, WarmsUpLinearlyAndNeverStartsAtZero) {
  EXPECT_DOUBLE_EQ(LearningRateAt(Config(RateSchedule::kCosine), 0, 1000), 2.0 / 101);
  EXPECT_DOUBLE_EQ(LearningRateAt(Config(RateSchedule::kCosine), 50, 1000), 2.0 * 51 / 101);
  EXPECT_DOUBLE_EQ(LearningRateAt(Config(RateSchedule::kCosine), 100, 1000), 2.0);
}

TEST(LearningRate, CosineFallsToTheFinalShare) {
  EXPECT_NEAR(LearningRateAt(Config(RateSchedule::kCosine), 550, 1000), 2.0 * (0.1 + 0.9 * 0.5), 1e-12);
  EXPECT_NEAR(LearningRateAt(Config(RateSchedule::kCosine), 1000, 1000), 0.2, 1e-12);
  EXPECT_NEAR(LearningRateAt(Config(RateSchedule::kCosine), 5000, 1000), 0.2, 1e-12);
}

TEST(LearningRate, LinearFallsStraight) {
  EXPECT_NEAR(LearningRateAt(Config(RateSchedule::kLinear), 325, 1000), 2.0 * (0.1 + 0.9 * 0.75), 1e-12);
}

TEST(LearningRate, DecaySamplesEndTheDecayEarlier) {
  OptimizerConfig config = Config(RateSchedule::kLinear);
  config.decay_samples = 300;
  EXPECT_NEAR(LearningRateAt(config, 200, 1000), 2.0 * 0.55, 1e-12);
  EXPECT_NEAR(LearningRateAt(config, 300, 1000), 0.2, 1e-12);
}

TEST(LearningRate, ConstantStays) { EXPECT_DOUBLE_EQ(LearningRateAt(Config(RateSchedule::kConstant), 999, 1000), 2.0); }

TEST(LearningRate, WsdIsStableThenDecaysAtTheEnd) {
  EXPECT_DOUBLE_EQ(LearningRateAt(Config(RateSchedule::kWarmupStableDecay), 899, 1000), 2.0);
  EXPECT_NEAR(LearningRateAt(Config(RateSchedule::kWarmupStableDecay), 950, 1000), 2.0 * 0.55, 1e-12);
  OptimizerConfig config = Config(RateSchedule::kWarmupStableDecay);
  config.decay_samples = 500;
  EXPECT_NEAR(LearningRateAt(config, 750, 1000), 2.0 * 0.55, 1e-12);
  EXPECT_NEAR(LearningRateAt(config, 1000, 1000), 0.2, 1e-12);
}

}  // namespace
}  // namespace trireme
