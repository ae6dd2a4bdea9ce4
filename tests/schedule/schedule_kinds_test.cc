// Each kind against what its file states: bubble and most in flight.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "schedule/schedule.h"

namespace trireme {
namespace {

using testing::HasSubstr;

double UnitBubble(const Schedule& schedule) { return Play(schedule, UnitCosts(schedule)).Bubble(); }

int MostInFlight(const Schedule& schedule, int stage) {
  int now = 0;
  int most = 0;
  for (const Action& action : schedule.actions[static_cast<std::size_t>(stage)]) {
    now += action.kind == ActionKind::kForward ? 1 : 0;
    now -= action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardWeight ? 1 : 0;
    most = std::max(most, now);
  }
  return most;
}

std::string MessageOf(const std::string& name, int stages, int chunks, int micro_batches) {
  try {
    MakeSchedule(name, stages, chunks, micro_batches);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(GPipe, HasTheBubbleAndMemoryItsFileStates) {
  for (int p = 1; p <= 9; ++p) {
    for (int m = 1; m <= 20; ++m) {
      const Schedule schedule = MakeSchedule("gpipe", p, 1, m);
      EXPECT_NEAR(UnitBubble(schedule), (p - 1.0) / m, 1e-12) << p << " " << m;
      for (int stage = 0; stage < p; ++stage) {
        EXPECT_EQ(PlanSlots(schedule, stage).slots[0], m);
      }
    }
  }
}

TEST(OneForwardOneBackward, HasTheBubbleAndMemoryItsFileStates) {
  for (int p = 1; p <= 9; ++p) {
    for (int m = 1; m <= 20; ++m) {
      const Schedule schedule = MakeSchedule("1f1b", p, 1, m);
      EXPECT_NEAR(UnitBubble(schedule), (p - 1.0) / m, 1e-12) << p << " " << m;
      for (int stage = 0; stage < p; ++stage) {
        EXPECT_EQ(PlanSlots(schedule, stage).slots[0], std::min(p - stage, m));
      }
    }
  }
}

TEST(OneForwardOneBackward, BubbleHoldsForAnyCostOfBackward) {
  const Schedule schedule = MakeSchedule("1f1b", 4, 1, 8);
  ScheduleCosts costs = UnitCosts(schedule);
  std::fill(costs.backward_weight.begin(), costs.backward_weight.end(), 0.5);
  EXPECT_NEAR(Play(schedule, costs).Bubble(), 3.0 / 8, 1e-12);
}

TEST(Interleaved, HasTheBubbleAndMemoryItsFileStates) {
  for (int p = 1; p <= 6; ++p) {
    for (int v = 1; v <= 4; ++v) {
      for (int m = p; m <= 4 * p; m += p) {
        const Schedule schedule = MakeSchedule("interleaved", p, v, m);
        EXPECT_NEAR(UnitBubble(schedule), (p - 1.0) / (v * m), 1e-12) << p << " " << v << " " << m;
        for (int stage = 0; stage < p; ++stage) {
          const int most = MostInFlight(schedule, stage);
          EXPECT_EQ(most, std::min(2 * (p - stage - 1) + (v - 1) * p + 1, v * m));
          const SlotPlan plan = PlanSlots(schedule, stage);
          EXPECT_GE(std::accumulate(plan.slots.begin(), plan.slots.end(), 0), most);
        }
      }
    }
  }
}

TEST(Interleaved, RefusesMicroBatchesThatAreNoMultiple) {
  EXPECT_THAT(MessageOf("interleaved", 4, 2, 6), HasSubstr("nearest that work: 4 or 8"));
  EXPECT_THAT(MessageOf("interleaved", 4, 2, 3), HasSubstr("nearest that work: 4"));
}

TEST(ZeroBubble, HasTheBubbleAndMemoryItsFileStates) {
  for (int p = 1; p <= 10; ++p) {
    for (int m = 1; m <= 24; ++m) {
      const Schedule schedule = MakeSchedule("zero_bubble", p, 1, m);
      EXPECT_NEAR(UnitBubble(schedule), std::max(p - 1.0, 2.0 * p - 1 - m) / (3.0 * m), 1e-12) << p << " " << m;
      for (int stage = 0; stage < p; ++stage) {
        EXPECT_EQ(PlanSlots(schedule, stage).slots[0], std::min(p, m));
      }
    }
  }
}

TEST(ZeroBubbleV, HasTheBubbleItsFileStates) {
  for (int p = 1; p <= 16; ++p) {
    for (int m = 2 * p; m <= 5 * p; m += p <= 8 ? 1 : p / 2) {
      const double idle = UnitBubble(MakeSchedule("zero_bubble_v", p, 2, m)) * 6 * m;
      if (p <= 8) {
        EXPECT_NEAR(idle, p - 1, 1e-9) << p << " " << m;
      } else {
        EXPECT_GE(idle, p - 1 - 1e-9) << p << " " << m;
        EXPECT_LE(idle, p + 2 + 1e-9) << p << " " << m;
      }
    }
  }
}

TEST(ZeroBubbleV, HasTheMemoryItsFileStates) {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 3 * p; ++m) {
      const Schedule schedule = MakeSchedule("zero_bubble_v", p, 2, m);
      for (int stage = 0; stage < p; ++stage) {
        EXPECT_THAT(PlanSlots(schedule, stage).slots,
                    testing::ElementsAre(std::min(2 * p - 1 - stage, m), std::min(stage + 1, m)))
            << p << " " << m;
      }
    }
  }
}

// A kind's own formulas are what the planner reads instead of the schedule.
TEST(ScheduleKinds, FormulasOfMemoryAreWhatPlanSlotsCounts) {
  for (const ScheduleKind& kind : ScheduleKinds()) {
    for (int m = 1; kind.in_flight != nullptr && m <= 9; ++m) {
      const Schedule schedule = MakeSchedule(kind.name, 4, kind.least_chunks, m);
      for (int stage = 0; stage < 4; ++stage) {
        const std::vector<int> slots = PlanSlots(schedule, stage).slots;
        for (int chunk = 0; chunk < kind.least_chunks; ++chunk) {
          EXPECT_EQ(kind.in_flight(4, stage, chunk, m), slots[static_cast<std::size_t>(chunk)]) << kind.name;
        }
      }
    }
  }
}

TEST(StagePlacement, EveryVirtualStageHasOneStageAndChunk) {
  for (const PlacementKind kind : {PlacementKind::kRoundRobin, PlacementKind::kVShaped}) {
    const StagePlacement placement{.kind = kind, .stages = 4, .chunks = 3};
    for (int virtual_stage = 0; virtual_stage < placement.virtual_stages(); ++virtual_stage) {
      const int stage = placement.StageOf(virtual_stage);
      EXPECT_EQ(placement.VirtualStage(stage, placement.ChunkOf(virtual_stage)), virtual_stage);
    }
  }
  const StagePlacement v{.kind = PlacementKind::kVShaped, .stages = 4, .chunks = 2};
  EXPECT_EQ(v.HeadStage(), 0);
  EXPECT_TRUE(v.IsLocal(3, 4));  // the turn
  EXPECT_TRUE(v.IsRemote(4, 5));
  EXPECT_FALSE(v.IsRemote(7, 8) || v.IsLocal(7, 8));
  const StagePlacement round_robin{.stages = 4, .chunks = 2};
  EXPECT_EQ(round_robin.HeadStage(), 3);
  EXPECT_TRUE(round_robin.IsRemote(3, 4));
}

TEST(ZeroBubble, SplitsEveryBackward) {
  EXPECT_TRUE(SplitsBackward(MakeSchedule("zero_bubble", 2, 1, 3)));
  for (const ScheduleKind& kind : ScheduleKinds()) {
    EXPECT_EQ(SplitsBackward(MakeSchedule(kind.name, 2, kind.least_chunks, 4)), kind.splits_backward) << kind.name;
  }
}

TEST(MakeSchedule, OneChunkKindsRefuseMore) {
  for (const char* name : {"gpipe", "1f1b", "zero_bubble"}) {
    EXPECT_THAT(MessageOf(name, 2, 3, 4), HasSubstr("layout.chunks = 3")) << name;
  }
}

TEST(MakeSchedule, AVTakesTwoChunks) {
  EXPECT_THAT(MessageOf("zero_bubble_v", 2, 1, 4),
              HasSubstr("runs 2 chunks per stage, not layout.chunks = 1; set chunks = 2, or schedule = gpipe or 1f1b"));
}

TEST(MakeSchedule, AnUnknownNameOffersTheNearest) {
  EXPECT_THAT(MessageOf("interleave", 2, 1, 4), HasSubstr("did you mean 'interleaved'?"));
}

TEST(MakeSchedule, RefusesAbsurdCounts) {
  EXPECT_THAT(MessageOf("1f1b", 0, 1, 4), HasSubstr("at least one stage"));
  EXPECT_THAT(MessageOf("1f1b", 2, 1, -4), HasSubstr("-4"));
  EXPECT_THAT(MessageOf("gpipe", 2'000'000'000, 1, 2'000'000'000), HasSubstr("too large"));
}

TEST(AddMessages, ASingleStageSendsNothing) {
  const Schedule schedule = MakeSchedule("interleaved", 1, 3, 4);
  for (const Action& action : schedule.actions[0]) {
    EXPECT_TRUE(IsCompute(action.kind)) << ToString(action);
  }
}

TEST(AddMessages, ReceivesStandBeforeAndSendsAfterTheirCompute) {
  const Schedule schedule = MakeSchedule("1f1b", 2, 1, 1);
  EXPECT_THAT(ToText(schedule), HasSubstr("stage 0: F0.0 SF0.0 RB0.0 B0.0\n"));
  EXPECT_THAT(ToText(schedule), HasSubstr("stage 1: RF0.0 F0.0 B0.0 SB0.0\n"));
}

TEST(PlanSlots, ASlotHoldsOneMicroBatchAtATime) {
  for (const ScheduleKind& kind : ScheduleKinds()) {
    const Schedule schedule = MakeSchedule(kind.name, 3, kind.least_chunks, 9);
    for (int stage = 0; stage < 3; ++stage) {
      const SlotPlan plan = PlanSlots(schedule, stage);
      std::vector<std::vector<int>> holder;
      for (const int slots : plan.slots) {
        holder.emplace_back(static_cast<std::size_t>(slots), -1);
      }
      for (const Action& action : schedule.actions[static_cast<std::size_t>(stage)]) {
        const auto chunk = static_cast<std::size_t>(action.chunk);
        const int slot = plan.slot_of[chunk][static_cast<std::size_t>(action.micro_batch)];
        int& held = holder[chunk][static_cast<std::size_t>(slot)];
        if (action.kind == ActionKind::kForward) {
          EXPECT_EQ(held, -1);
          held = action.micro_batch;
        } else if (IsCompute(action.kind)) {
          EXPECT_EQ(held, action.micro_batch);
          held = action.kind == ActionKind::kBackwardInput ? held : -1;
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme
