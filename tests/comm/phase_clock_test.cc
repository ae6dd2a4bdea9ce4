#include "comm/phase_clock.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

TEST(PhaseClock, KeepsCollectivesApartFromTheirPhases) {
  PhaseClock clock;
  clock.Enter("batch", 10 * kSecond);
  clock.Enter("forward", 11 * kSecond);
  clock.CollectiveStarted(12 * kSecond);
  clock.CollectiveEnded("tensor", 14 * kSecond);
  clock.Enter("backward", 15 * kSecond);
  clock.Enter("forward", 18 * kSecond);
  const PhaseTimes times = clock.Take(20 * kSecond);
  EXPECT_DOUBLE_EQ(times.Phase("batch"), 1);
  EXPECT_DOUBLE_EQ(times.Phase("forward"), 4);
  EXPECT_DOUBLE_EQ(times.Phase("backward"), 3);
  EXPECT_DOUBLE_EQ(times.Group("tensor"), 2);
  EXPECT_DOUBLE_EQ(times.Group("data"), 0);
}

TEST(PhaseClock, ASecondTakeBeginsWhereTheFirstEnded) {
  PhaseClock clock;
  clock.Enter("update", 1 * kSecond);
  EXPECT_DOUBLE_EQ(clock.Take(3 * kSecond).Phase("update"), 2);
  clock.Enter("batch", 4 * kSecond);
  const PhaseTimes times = clock.Take(5 * kSecond);
  EXPECT_DOUBLE_EQ(times.Phase("update"), 1);
  EXPECT_DOUBLE_EQ(times.Phase("batch"), 1);
}

}  // namespace
}  // namespace trireme
