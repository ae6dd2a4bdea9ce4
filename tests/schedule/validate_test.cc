#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "schedule/schedule.h"

namespace trireme {
namespace {

using testing::HasSubstr;

std::string MessageOf(const Schedule& schedule) {
  try {
    Validate(schedule);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::size_t PositionOf(const Schedule& schedule, int stage, const Action& action) {
  const auto& list = schedule.actions[static_cast<std::size_t>(stage)];
  return static_cast<std::size_t>(std::find(list.begin(), list.end(), action) - list.begin());
}

// Moves an action to a position before its own.
void Move(Schedule& schedule, int stage, const Action& action, std::size_t position) {
  auto& list = schedule.actions[static_cast<std::size_t>(stage)];
  const auto from = list.begin() + static_cast<std::ptrdiff_t>(PositionOf(schedule, stage, action));
  std::rotate(list.begin() + static_cast<std::ptrdiff_t>(position), from, from + 1);
}

TEST(Validate, AcceptsEveryKindForManyCounts) {
  for (const ScheduleKind& kind : ScheduleKinds()) {
    for (int stages = 1; stages <= 8; ++stages) {
      for (int micro_batches = stages; micro_batches <= 4 * stages; micro_batches += stages) {
        for (int chunks = kind.least_chunks; chunks <= std::min(kind.most_chunks, 3); ++chunks) {
          EXPECT_EQ(MessageOf(MakeSchedule(kind.name, stages, chunks, micro_batches)), "");
        }
      }
    }
  }
}

// Every action is needed: whichever one is missing or comes twice, the schedule is refused.
TEST(Validate, RefusesAnyMissingOrRepeatedAction) {
  for (const ScheduleKind& kind : ScheduleKinds()) {
    const Schedule whole = MakeSchedule(kind.name, 2, kind.least_chunks, 4);
    for (std::size_t stage = 0; stage < 2; ++stage) {
      for (std::size_t position = 0; position < whole.actions[stage].size(); ++position) {
        Schedule missing = whole;
        auto& shorter = missing.actions[stage];
        shorter.erase(shorter.begin() + static_cast<std::ptrdiff_t>(position));
        EXPECT_NE(MessageOf(missing), "") << kind.name << " " << ToString(whole.actions[stage][position]);
        Schedule repeated = whole;
        repeated.actions[stage].push_back(whole.actions[stage][position]);
        EXPECT_THAT(MessageOf(repeated), HasSubstr("happens a second time"))
            << kind.name << " " << ToString(whole.actions[stage][position]);
      }
    }
  }
}

TEST(Validate, NamesStagePositionAndAction) {
  Schedule schedule = MakeSchedule("1f1b", 2, 1, 2);
  auto& list = schedule.actions[1];
  std::swap(list[0], list[1]);
  EXPECT_EQ(MessageOf(schedule), "schedule '1f1b', stage 1, position 0, F0.0: its input has not been received");
}

TEST(Validate, RefusesASendBeforeItsForward) {
  Schedule schedule = MakeSchedule("1f1b", 2, 1, 1);
  std::swap(schedule.actions[0][0], schedule.actions[0][1]);
  EXPECT_THAT(MessageOf(schedule), HasSubstr("SF0.0: comes before the forward that makes it"));
}

TEST(Validate, RefusesAWeightPartBeforeItsInputPart) {
  Schedule schedule = MakeSchedule("zero_bubble", 1, 1, 1);
  std::swap(schedule.actions[0][1], schedule.actions[0][2]);
  EXPECT_THAT(MessageOf(schedule), HasSubstr("W0.0: comes before its input part"));
}

TEST(Validate, RefusesStagesThatWaitForEachOther) {
  Schedule schedule = MakeSchedule("gpipe", 2, 1, 2);
  // Stage 0 wants the gradient of micro batch 0 before it has sent the activation that leads to it.
  Move(schedule, 0, {ActionKind::kReceiveGradient, 0, 0}, 1);
  Move(schedule, 0, {ActionKind::kBackward, 0, 0}, 2);
  EXPECT_THAT(MessageOf(schedule), HasSubstr("never ends"));
}

TEST(Validate, RefusesAnOutputThatIsOverwrittenBeforeItIsSent) {
  Schedule schedule = MakeSchedule("gpipe", 2, 1, 2);  // stage 0: F0.0 SF0.0 F0.1 SF0.1 ...
  Move(schedule, 0, {ActionKind::kForward, 0, 1}, 1);
  EXPECT_THAT(MessageOf(schedule), HasSubstr("position 1, F0.1: comes before the output"));
}

TEST(Validate, RefusesAGradientThatIsOverwrittenBeforeItIsUsed) {
  Schedule early = MakeSchedule("gpipe", 2, 1, 2);  // stage 0: ... RB0.0 B0.0 RB0.1 B0.1
  Move(early, 0, {ActionKind::kReceiveGradient, 0, 1}, 5);
  EXPECT_THAT(MessageOf(early), HasSubstr("position 5, RB0.1: comes before the gradient that is there is used"));
  Schedule late = MakeSchedule("gpipe", 2, 1, 2);  // stage 1: ... B0.0 SB0.0 B0.1 SB0.1
  Move(late, 1, {ActionKind::kBackward, 0, 1}, PositionOf(late, 1, {ActionKind::kSendGradient, 0, 0}));
  EXPECT_THAT(MessageOf(late), HasSubstr("B0.1: comes before the gradient of the backward before it is sent"));
}

// At the turn of a V a gradient stays in place: no other may come between.
TEST(Validate, RefusesAnotherGradientAtTheTurn) {
  Schedule schedule = MakeSchedule("zero_bubble_v", 1, 2, 2);
  Move(schedule, 0, {ActionKind::kForward, 0, 1}, 2);
  Move(schedule, 0, {ActionKind::kForward, 1, 1}, 3);
  EXPECT_EQ(MessageOf(schedule), "");
  const std::size_t next = PositionOf(schedule, 0, {ActionKind::kBackwardInput, 1, 0}) + 1;
  Move(schedule, 0, {ActionKind::kBackwardInput, 1, 1}, next);
  EXPECT_THAT(MessageOf(schedule), HasSubstr("I1.1: comes before the gradient that is there is used"));
}

TEST(Validate, RefusesActionsOutsideTheCounts) {
  Schedule schedule = MakeSchedule("gpipe", 1, 1, 1);
  schedule.actions[0][0].micro_batch = 7;
  EXPECT_THAT(MessageOf(schedule), HasSubstr("does not have"));
  schedule.actions[0][0] = {.chunk = -1};
  EXPECT_THAT(MessageOf(schedule), HasSubstr("does not have"));
  schedule.actions.clear();
  EXPECT_THAT(MessageOf(schedule), HasSubstr("0 lists of actions for 1 stages"));
}

}  // namespace
}  // namespace trireme
