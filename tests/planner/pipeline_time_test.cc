#include "planner/pipeline_time.h"

#include "base/random.h"

namespace trireme {
namespace {

ScheduleCosts UnevenCosts(int places, std::uint64_t seed) {
  ScheduleCosts costs;
  for (int place = 0; place < places; ++place) {
    const auto index = static_cast<std::uint64_t>(place);
    costs.forward.push_back(1 + RandomUniform(seed, index));
    costs.backward_input.push_back(1 + RandomUniform(seed + 1, index));
    costs.backward_weight.push_back(1 + RandomUniform(seed + 2, index));
  }
  costs.message = 0.1;
  return costs;
}

TEST(PipelineClock, TakesAsLongAsThePlayedSchedule) {
  PipelineClock clock;
  for (const char* name : {"gpipe", "1f1b", "interleaved", "zero_bubble"}) {
    for (const int stages : {1, 2, 3, 4, 8}) {
      for (const int micro_batches : {1, 2, 4, 8, 24, 64}) {
        const int chunks = std::string(name) == "interleaved" ? 2 : 1;
        if (chunks == 2 && (micro_batches % stages != 0 || stages == 1)) {
          continue;
        }
        const ScheduleCosts costs = UnevenCosts(stages * chunks, 7);
        const double played = Play(MakeSchedule(name, stages, chunks, micro_batches), costs).seconds;
        const double priced = clock.Seconds({name, stages, chunks, micro_batches}, costs);
        EXPECT_NEAR(priced / played, 1.0, 0.02) << name << " p" << stages << " m" << micro_batches;
      }
    }
  }
}

TEST(PipelineClock, KeepsTheSlotsThatTheTrainerPlans) {
  PipelineClock clock;
  for (const char* name : {"gpipe", "1f1b", "zero_bubble"}) {
    for (int stage = 0; stage < 4; ++stage) {
      EXPECT_EQ(clock.Slots({name, 4, 1, 6}, stage), PlanSlots(MakeSchedule(name, 4, 1, 6), stage).slots) << name;
    }
  }
}

}  // namespace
}  // namespace trireme
