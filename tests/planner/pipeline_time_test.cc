#include "planner/pricing/pipeline_time.h"

#include <gtest/gtest.h>

#include <random>

namespace trireme {
namespace {

ScheduleCosts RandomCosts(int places, std::mt19937& random, double message, double spread) {
  std::uniform_real_distribution<double> cost(1 - spread, 1 + spread);
  ScheduleCosts costs;
  for (int place = 0; place < places; ++place) {
    costs.forward.push_back(cost(random));
    costs.backward_input.push_back(cost(random));
    costs.backward_weight.push_back(cost(random));
  }
  costs.message = message;
  return costs;
}

struct Case {
  const char* schedule;
  int stages;
  int chunks;
  int micro_batches;
};
constexpr Case kShort[] = {{"gpipe", 4, 1, 6},        {"1f1b", 1, 1, 5},        {"1f1b", 4, 1, 2},
                           {"1f1b", 5, 1, 17},        {"interleaved", 3, 2, 6}, {"interleaved", 4, 3, 8},
                           {"zero_bubble", 4, 1, 12}, {"zero_bubble", 6, 1, 3}, {"zero_bubble_v", 4, 2, 12},
                           {"zero_bubble_v", 3, 2, 2}};
constexpr Case kLong[] = {{"gpipe", 4, 1, 64},         {"1f1b", 4, 1, 101},        {"1f1b", 12, 1, 128},
                          {"interleaved", 4, 2, 64},   {"interleaved", 3, 4, 60},  {"zero_bubble", 5, 1, 93},
                          {"zero_bubble_v", 4, 2, 64}, {"zero_bubble_v", 8, 2, 99}};

TEST(PipelineTime, EqualsThePlayedSchedule) {
  std::mt19937 random(1);
  for (const Case& c : kShort) {
    for (const double message : {0.0, 0.2}) {
      const ScheduleCosts costs = RandomCosts(c.stages * c.chunks, random, message, 0.5);
      const Schedule schedule = MakeSchedule(c.schedule, c.stages, c.chunks, c.micro_batches);
      EXPECT_NEAR(PipelineClock().Seconds({c.schedule, c.stages, c.chunks, c.micro_batches}, costs),
                  Play(schedule, costs).seconds, 1e-9)
          << c.schedule << " " << c.stages << " " << c.chunks << " " << c.micro_batches;
    }
  }
}

TEST(PipelineTime, ShortenedRunsEqualThePlayedScheduleWhenStagesAreEqual) {
  for (const Case& c : kLong) {
    const Schedule schedule = MakeSchedule(c.schedule, c.stages, c.chunks, c.micro_batches);
    const ScheduleCosts costs = UnitCosts(schedule);
    EXPECT_NEAR(PipelineClock().Seconds({c.schedule, c.stages, c.chunks, c.micro_batches}, costs),
                Play(schedule, costs).seconds, 1e-9)
        << c.schedule << " " << c.stages << " " << c.micro_batches;
  }
}

TEST(PipelineTime, ShortenedRunsStayNearThePlayedScheduleWhenStagesDiffer) {
  std::mt19937 random(2);
  for (const Case& c : kLong) {
    for (int draw = 0; draw < 20; ++draw) {
      const ScheduleCosts costs = RandomCosts(c.stages * c.chunks, random, draw % 2 == 0 ? 0.0 : 0.1, 0.15);
      const Schedule schedule = MakeSchedule(c.schedule, c.stages, c.chunks, c.micro_batches);
      const double played = Play(schedule, costs).seconds;
      EXPECT_NEAR(PipelineClock().Seconds({c.schedule, c.stages, c.chunks, c.micro_batches}, costs) / played, 1, 1.5e-2)
          << c.schedule << " " << c.stages << " " << c.micro_batches;
    }
  }
}

TEST(PipelineTime, OneForwardOneBackwardHasItsClosedForm) {
  // (m + p - 1) (f + b), and each message on the way once for fill and drain and once a round of p micro batches.
  ScheduleCosts costs{.forward = {1, 1, 1, 1}, .backward_input = {1, 1, 1, 1}, .backward_weight = {1, 1, 1, 1}};
  EXPECT_NEAR(PipelineClock().Seconds({"1f1b", 4, 1, 512}, costs), 515 * 3, 1e-9);
  const double bubble = BubbleShare({"1f1b", 4, 1, 512});
  EXPECT_NEAR(bubble, 3.0 / 515, 1e-12);
}

TEST(PipelineTime, SlotsEqualThePlannedOnes) {
  for (const Case& c : kShort) {
    const Schedule schedule = MakeSchedule(c.schedule, c.stages, c.chunks, c.micro_batches);
    PipelineClock clock;
    for (int stage = 0; stage < c.stages; ++stage) {
      EXPECT_EQ(clock.Slots({c.schedule, c.stages, c.chunks, c.micro_batches}, stage), PlanSlots(schedule, stage).slots)
          << c.schedule << " " << c.stages << " stage " << stage;
    }
  }
  for (const Case& c : kLong) {
    const Schedule schedule = MakeSchedule(c.schedule, c.stages, c.chunks, c.micro_batches);
    EXPECT_EQ(PipelineClock().Slots({c.schedule, c.stages, c.chunks, c.micro_batches}, 0), PlanSlots(schedule, 0).slots)
        << c.schedule << " " << c.stages << " " << c.micro_batches;
  }
}

}  // namespace
}  // namespace trireme
