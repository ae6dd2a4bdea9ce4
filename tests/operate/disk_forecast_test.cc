#include "operate/disk_forecast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(DiskForecast, CountsTheSavesOfWhatIsLeft) {
  EXPECT_EQ(SavesToCome({.every = 0}, 0, 10), 1);
  EXPECT_EQ(SavesToCome({.every = 4}, 0, 10), 3);
  EXPECT_EQ(SavesToCome({.every = 4}, 4, 12), 2);
  EXPECT_EQ(SavesToCome({.every = 4}, 12, 12), 0);
}

TEST(DiskForecast, ANewCheckpointIsWholeBeforeTheOldestGoes) {
  EXPECT_EQ((DiskForecast{.bytes = 10, .saves = 100, .keep = 3}).needed(), 40);
  EXPECT_EQ((DiskForecast{.bytes = 10, .saves = 2, .keep = 3}).needed(), 20);
  EXPECT_EQ((DiskForecast{.bytes = 10, .existing = 3, .saves = 100, .keep = 3}).needed(), 10);
  EXPECT_EQ((DiskForecast{.bytes = 10, .existing = 9, .saves = 1, .keep = 3}).needed(), 10);
  EXPECT_EQ((DiskForecast{.bytes = 10, .existing = 3, .saves = 0, .keep = 3}).needed(), 0);
  EXPECT_EQ((DiskForecast{.bytes = 10, .saves = 100, .keep = 3, .joined = true}).needed(), 50);
  EXPECT_EQ((DiskForecast{.bytes = 10, .existing = 3, .saves = 0, .keep = 3, .joined = true}).needed(), 0);
}

TEST(DiskForecast, WarnsWhereTheBytesAreNotThere) {
  DiskForecast forecast{.bytes = 1'000'000, .saves = 5, .keep = 3, .free = 4'000'000};
  EXPECT_THAT(Describe(forecast, "runs/a/checkpoints"), Not(HasSubstr("warning")));
  forecast.free = 3'999'999;
  EXPECT_THAT(Describe(forecast, "runs/a/checkpoints"),
              testing::AllOf(StartsWith("warning:"), HasSubstr("'runs/a/checkpoints' needs 4.0 MB more")));
  forecast.free = -1;
  EXPECT_THAT(Describe(forecast, "runs/a/checkpoints"), HasSubstr("not known"));
}

}  // namespace
}  // namespace trireme
