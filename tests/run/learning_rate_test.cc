#include <gtest/gtest.h>

#include "run/run_config.h"

namespace trireme {
namespace {

OptimizerConfig Config(const std::string& schedule) {
  return {.learning_rate = 2.0, .schedule = schedule, .warmup_samples = 100, .final_fraction = 0.1};
}

TEST(LearningRate, WarmsUpLinearlyAndNeverStartsAtZero) {
  EXPECT_DOUBLE_EQ(LearningRateAt(Config("cosine"), 0, 1000), 2.0 / 101);
  EXPECT_DOUBLE_EQ(LearningRateAt(Config("cosine"), 50, 1000), 2.0 * 51 / 101);
  EXPECT_DOUBLE_EQ(LearningRateAt(Config("cosine"), 100, 1000), 2.0);
}

TEST(LearningRate, CosineFallsToTheFinalShare) {
  EXPECT_NEAR(LearningRateAt(Config("cosine"), 550, 1000), 2.0 * (0.1 + 0.9 * 0.5), 1e-12);
  EXPECT_NEAR(LearningRateAt(Config("cosine"), 1000, 1000), 0.2, 1e-12);
  EXPECT_NEAR(LearningRateAt(Config("cosine"), 5000, 1000), 0.2, 1e-12);
}

TEST(LearningRate, LinearFallsStraight) {
  EXPECT_NEAR(LearningRateAt(Config("linear"), 325, 1000), 2.0 * (0.1 + 0.9 * 0.75), 1e-12);
}

TEST(LearningRate, DecaySamplesEndTheDecayEarlier) {
  OptimizerConfig config = Config("linear");
  config.decay_samples = 300;
  EXPECT_NEAR(LearningRateAt(config, 200, 1000), 2.0 * 0.55, 1e-12);
  EXPECT_NEAR(LearningRateAt(config, 300, 1000), 0.2, 1e-12);
}

TEST(LearningRate, ConstantStays) { EXPECT_DOUBLE_EQ(LearningRateAt(Config("constant"), 999, 1000), 2.0); }

TEST(LearningRate, WsdIsStableThenDecaysAtTheEnd) {
  EXPECT_DOUBLE_EQ(LearningRateAt(Config("wsd"), 899, 1000), 2.0);
  EXPECT_NEAR(LearningRateAt(Config("wsd"), 950, 1000), 2.0 * 0.55, 1e-12);
  OptimizerConfig config = Config("wsd");
  config.decay_samples = 500;
  EXPECT_NEAR(LearningRateAt(config, 750, 1000), 2.0 * 0.55, 1e-12);
  EXPECT_NEAR(LearningRateAt(config, 1000, 1000), 0.2, 1e-12);
}

}  // namespace
}  // namespace trireme
