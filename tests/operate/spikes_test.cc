#include "operate/spikes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "message_of.h"
#include "operate/saved_progress.h"

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

TEST(SavedProgress, ADamagedRateFactorIsNamed) {
  EXPECT_EQ(SavedNumbers({.notes = {{"rate_factor", "0.25"}}}, {}).rate_factor, 0.25);
  EXPECT_EQ(SavedNumbers({}, {}).rate_factor, 1);
  for (const char* text : {"zz", "", "0.5x", "nan", "-1", "0", "1e300"}) {
    EXPECT_THAT(test::MessageOf([&] {
                  SavedNumbers({.notes = {{"rate_factor", text}}}, {});
                }),
                testing::HasSubstr(std::string("note rate_factor = '") + text + "' is damaged"));
  }
}

}  // namespace
}  // namespace trireme
