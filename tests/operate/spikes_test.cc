#include "operate/spikes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Spikes, NotesAJumpAndNotASlowRise) {
  Spikes spikes("loss", 2);
  for (int step = 1; step <= 50; ++step) {
    EXPECT_EQ(spikes.Check(step, 4 + 0.02 * step), "");
  }
  EXPECT_THAT(spikes.Check(51, 40), testing::HasSubstr("step 51: loss spike: 40.0000"));
  EXPECT_EQ(spikes.Check(52, 5), "");
  EXPECT_THAT(spikes.Check(53, 40), testing::HasSubstr("loss spike"));
}

TEST(Spikes, ZeroTurnsItOff) {
  Spikes spikes("loss", 0);
  for (int step = 1; step <= 50; ++step) {
    EXPECT_EQ(spikes.Check(step, step == 40 ? 1e6 : 1), "");
  }
}

}  // namespace
}  // namespace trireme
