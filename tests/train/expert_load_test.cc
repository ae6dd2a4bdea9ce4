#include "train/expert_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(ExpertLoad, IsThatOfTheWorstLayer) {
  const ExpertLoad even{.rows = {{0, {5, 5, 5, 5}}}};
  EXPECT_DOUBLE_EQ(even.MaxOverMean(), 1);
  EXPECT_DOUBLE_EQ(even.Entropy(), 1);
  EXPECT_EQ(even.Idle(), 0);
  const ExpertLoad uneven{.rows = {{0, {5, 5, 5, 5}}, {3, {20, 0, 0, 0}}}};
  EXPECT_DOUBLE_EQ(uneven.MaxOverMean(), 4);
  EXPECT_DOUBLE_EQ(uneven.Entropy(), 0);
  EXPECT_EQ(uneven.Idle(), 3);
  const ExpertLoad one{.rows = {{0, {7}}}};
  EXPECT_DOUBLE_EQ(one.Entropy(), 1);
}

TEST(ExpertLoad, AnExpertThatStaysIdleIsToldOfOnce) {
  IdleExperts watch;
  const ExpertLoad load{.rows = {{2, {3, 0, 1}}}};
  for (int step = 1; step < IdleExperts::kSteps; ++step) {
    EXPECT_EQ(watch.Look(load), "");
  }
  EXPECT_THAT(watch.Look(load), testing::AllOf(testing::HasSubstr("1 of layer 2"), testing::HasSubstr("balance_loss")));
  EXPECT_EQ(watch.Look(load), "");
  EXPECT_EQ(watch.Look({.rows = {{2, {3, 1, 1}}}}), "");
}

}  // namespace
}  // namespace trireme
