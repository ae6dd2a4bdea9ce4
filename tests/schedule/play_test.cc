#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/error.h"
#include "schedule/schedule.h"

namespace trireme {
namespace {

TEST(Play, ActionsOfAStageNeverOverlap) {
  const Schedule schedule = MakeSchedule("interleaved", 4, 2, 8);
  ScheduleCosts costs = UnitCosts(schedule);
  for (std::size_t place = 0; place < costs.forward.size(); ++place) {
    costs.forward[place] = 1.0 + 0.1 * static_cast<double>(place);
  }
  costs.message = 0.25;
  for (const std::vector<PlayedAction>& stage : Play(schedule, costs).stages) {
    double free = 0;
    for (const PlayedAction& played : stage) {
      EXPECT_GE(played.start, free);
      free = played.end;
    }
  }
}

TEST(Play, MessagesDelayTheReceiverOnly) {
  const Schedule schedule = MakeSchedule("1f1b", 2, 1, 1);
  ScheduleCosts costs = UnitCosts(schedule);
  costs.message = 10;
  const Timeline timeline = Play(schedule, costs);
  EXPECT_DOUBLE_EQ(timeline.stages[1][0].start, 11);
  EXPECT_DOUBLE_EQ(timeline.seconds, 1 + 10 + 1 + 2 + 10 + 2);
  EXPECT_DOUBLE_EQ(timeline.busy[0], 3);
}

TEST(Play, ALateSendArrivesLate) {
  const std::string text =
      "trireme-schedule 1 name=late stages=2 chunks=1 micro_batches=2\n"
      "stage 0: F0.0 SF0.0 F0.1 SF0.1 RB0.0 B0.0 RB0.1 B0.1\n"
      "stage 1: RF0.0 F0.0 B0.0 RF0.1 F0.1 SB0.0 B0.1 SB0.1\n";
  const Schedule schedule = ParseSchedule(text, "text");
  EXPECT_DOUBLE_EQ(Play(schedule, UnitCosts(schedule)).stages[0][2].start, 5);  // made at 4
}

TEST(Play, TakesSchedulesWithoutMessages) {
  Schedule schedule{.name = "bare", .stages = 2, .chunks = 1, .micro_batches = 1};
  schedule.actions = {{{ActionKind::kForward, 0, 0}, {ActionKind::kBackward, 0, 0}},
                      {{ActionKind::kForward, 0, 0}, {ActionKind::kBackward, 0, 0}}};
  EXPECT_DOUBLE_EQ(Play(schedule, UnitCosts(schedule)).seconds, 6);
}

TEST(Play, ASlowStageSetsThePace) {
  const Schedule schedule = MakeSchedule("1f1b", 3, 1, 16);
  ScheduleCosts costs = UnitCosts(schedule);
  costs.forward[1] = 5;
  const Timeline timeline = Play(schedule, costs);
  EXPECT_GE(timeline.seconds, 16 * 7);
  EXPECT_DOUBLE_EQ(timeline.busy[1], 16 * 7);
}

TEST(DrawGrid, HasOneRowAStageAndFitsItsWidth) {
  const std::string grid = DrawGrid(MakeSchedule("1f1b", 2, 1, 2), 100);
  EXPECT_EQ(grid,
            "stage 0 | F0 F1 .  .  B0 -- .  B1 --\n"
            "stage 1 | .  F0 B0 -- F1 B1 -- .  .\n"
            "1f1b: bubble 0.5000; in flight by stage: 2 1\n");
  const std::string narrow = DrawGrid(MakeSchedule("interleaved", 4, 2, 64), 60);
  EXPECT_THAT(narrow, testing::HasSubstr("units of time"));
  std::istringstream lines(narrow);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 60U);
  }
}

}  // namespace
}  // namespace trireme
