#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/run_config.h"

namespace trireme {
namespace {

using testing::ElementsAre;

TEST(BatchSchedule, WithoutARampEveryStepIsWhole) {
  const BatchSchedule batches({.global = 8});
  EXPECT_EQ(batches.GlobalBatchAt(0), 8);
  EXPECT_THAT(batches.Sizes(), ElementsAre(8));
  EXPECT_EQ(batches.SamplesAfter(5), 40);
  EXPECT_EQ(batches.StepsFor(40), 5);
  EXPECT_EQ(batches.StepsFor(41), 6);
  EXPECT_EQ(batches.StepsFor(0), 0);
}

TEST(BatchSchedule, GrowsEvenlyOverTheRamp) {
  const BatchSchedule batches({.global = 64, .ramp_start = 16, .ramp_increment = 16, .ramp_samples = 300});
  EXPECT_EQ(batches.GlobalBatchAt(0), 16);
  EXPECT_EQ(batches.GlobalBatchAt(99), 16);
  EXPECT_EQ(batches.GlobalBatchAt(100), 32);
  EXPECT_EQ(batches.GlobalBatchAt(299), 48);
  EXPECT_EQ(batches.GlobalBatchAt(300), 64);
  EXPECT_THAT(batches.Sizes(), ElementsAre(16, 32, 48, 64));
}

TEST(BatchSchedule, ASizeThatNoStepMeetsIsNotListed) {
  const BatchSchedule batches({.global = 40, .ramp_start = 10, .ramp_increment = 10, .ramp_samples = 12});
  EXPECT_THAT(batches.Sizes(), ElementsAre(10, 30, 40));
}

// The jumps of SamplesAfter, StepsFor and Sizes against one step at a time.
TEST(BatchSchedule, AgreesWithTakingEachStep) {
  for (const std::int64_t ramp_samples : {1, 17, 100, 1000, 4096}) {
    const BatchSchedule batches({.global = 60, .ramp_start = 12, .ramp_increment = 6, .ramp_samples = ramp_samples});
    std::vector<std::int64_t> sizes;
    std::int64_t consumed = 0;
    for (std::int64_t step = 0; step < 300; ++step) {
      EXPECT_EQ(batches.SamplesAfter(step), consumed);
      EXPECT_EQ(batches.StepsFor(consumed), step);
      EXPECT_EQ(batches.StepsFor(consumed + 1), step + 1);
      const std::int64_t size = batches.GlobalBatchAt(consumed);
      if (sizes.empty() || sizes.back() != size) {
        sizes.push_back(size);
      }
      consumed += size;
    }
    EXPECT_EQ(batches.Sizes(), sizes) << ramp_samples;
  }
}

TEST(BatchSchedule, AStartAtTheWholeIsNoRamp) {
  const BatchSchedule batches({.global = 8, .ramp_start = 8, .ramp_increment = 4, .ramp_samples = 100});
  EXPECT_THAT(batches.Sizes(), ElementsAre(8));
  EXPECT_EQ(batches.SamplesAfter(3), 24);
}

TEST(MicroBatches, AreWhatADataRankRuns) { EXPECT_EQ(MicroBatches({.data = 4, .micro_batch = 2}, 64), 8); }

TEST(TotalSteps, FollowFromSamplesOrTokens) {
  RunConfig config;
  config.batch.global = 10;
  config.model.sequence = 32;
  config.train.steps = 7;
  EXPECT_EQ(TotalSteps(config), 7);
  config.train.samples = 95;
  EXPECT_EQ(TotalSteps(config), 10);
  config.train.samples = 0;
  config.train.tokens = 32 * 10 * 3 + 1;
  EXPECT_EQ(TotalSteps(config), 4);
}

}  // namespace
}  // namespace trireme
