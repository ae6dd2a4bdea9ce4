#include "operate/watchdog.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

// A run of two ranks whose time the test makes.
struct PlayedRun {
  explicit PlayedRun(const WatchLimits& limits = {}) : dog(limits) {
    for (int rank = 0; rank < 2; ++rank) {
      snapshots.push_back({.rank = rank, .phase = "start", .state = 'R'});
    }
  }
  // Each poll both ranks work; `beats`: and their ledgers move.
  void Work(double seconds, bool beats) {
    for (double until = now + seconds; now < until; now += 0.2) {
      for (RankSnapshot& snapshot : snapshots) {
        snapshot.beats += beats ? 1 : 0;
        snapshot.process_cpu_seconds += 0.2;
        snapshot.cpu_seconds += 0.2;
      }
      Check();
    }
  }
  void Steps(int count, double seconds_without_beat = 0.2) {
    for (int i = 0; i < count; ++i) {
      for (RankSnapshot& snapshot : snapshots) {
        ++snapshot.step;
        snapshot.steps_before = snapshot.step - 1;
        snapshot.phase = "forward";
      }
      Work(0.2, true);
      Work(seconds_without_beat, false);
    }
  }
  // Nothing moves at all.
  void Stand(double seconds) {
    for (double until = now + seconds; now < until; now += 0.2) {
      Check();
    }
  }
  void Check() {
    if (const auto found = dog.Check(now, snapshots); found && !alarm) {
      alarm = found;
    }
  }

  Watchdog dog;
  std::vector<RankSnapshot> snapshots;
  double now = 100;
  std::optional<Alarm> alarm;
};

TEST(Watchdog, SaysNothingAboutARunThatMoves) {
  PlayedRun run;
  run.Work(120, false);  // a long start
  run.Steps(50, 3);
  EXPECT_FALSE(run.alarm);
}

TEST(Watchdog, SeesStoppedRanksWithinFifteenSecondsEvenAtTheStart) {
  PlayedRun run;
  run.Work(1, true);
  run.snapshots[1].state = 'T';
  run.Work(14, false);
  ASSERT_TRUE(run.alarm);
  EXPECT_EQ(run.alarm->kind, ProcessActivity::kStopped);
  EXPECT_LT(run.alarm->seconds, 11);
  EXPECT_EQ(run.alarm->by_rank[0], ProcessActivity::kBusy);
  EXPECT_EQ(run.alarm->by_rank[1], ProcessActivity::kStopped);
}

TEST(Watchdog, SeesADeadRankThoughItsLauncherLivesOn) {
  PlayedRun run;
  run.Work(1, true);
  run.snapshots[0].state = 'X';
  run.Work(14, false);
  ASSERT_TRUE(run.alarm);
  EXPECT_EQ(run.alarm->kind, ProcessActivity::kDead);
}

TEST(Watchdog, SeesIdleAndSpinningRanksOnceItKnowsTheRun) {
  PlayedRun idle;
  idle.Steps(5);
  idle.Stand(14);
  ASSERT_TRUE(idle.alarm);
  EXPECT_EQ(idle.alarm->kind, ProcessActivity::kIdle);
  PlayedRun spinning;
  spinning.Steps(5);
  spinning.Work(14, false);
  ASSERT_TRUE(spinning.alarm);
  EXPECT_EQ(spinning.alarm->kind, ProcessActivity::kBusy);
  EXPECT_GT(spinning.alarm->cpu_share[0], 0.9);
}

TEST(Watchdog, LearnsThatAPhaseIsLong) {
  PlayedRun run;
  run.Steps(5, 8);
  run.Work(30, false);
  EXPECT_FALSE(run.alarm);
  run.Work(15, false);
  EXPECT_TRUE(run.alarm);
}

// Seconds after which a silent run is named where 100 ranks took turns before, so that each was silent for 20 s.
double NamedAfterTurns(int process) {
  PlayedRun run;
  run.snapshots.clear();
  for (int rank = 0; rank < 100; ++rank) {
    run.snapshots.push_back({.rank = rank, .process = process, .steps_before = 5, .phase = "forward", .state = 'R'});
  }
  for (int turn = 0; turn < 300; ++turn) {
    RankSnapshot& working = run.snapshots[static_cast<std::size_t>(turn % 100)];
    ++working.beats;
    for (RankSnapshot& snapshot : run.snapshots) {
      snapshot.process_cpu_seconds += 0.2;
    }
    run.Check();
    run.now += 0.2;
  }
  EXPECT_FALSE(run.alarm);
  run.Stand(150);
  return run.alarm ? run.alarm->seconds : -1;
}

TEST(Watchdog, LearnsHowLongAProcessIsSilentNotHowLongItsThreadsAwaitTheirTurn) {
  EXPECT_NEAR(NamedAfterTurns(7), 10, 1);
  EXPECT_NEAR(NamedAfterTurns(0), 100, 1) << "ranks of processes of their own";
}

TEST(Watchdog, WaitsForDisksAndFirstSteps) {
  PlayedRun run;
  run.Steps(1);
  run.Work(600, false);  // the second step has no history
  EXPECT_FALSE(run.alarm);
  PlayedRun saving;
  saving.Steps(5);
  for (RankSnapshot& snapshot : saving.snapshots) {
    snapshot.phase = "save";
    ++snapshot.beats;
    snapshot.process_on_disk = true;
  }
  saving.Stand(600);
  EXPECT_FALSE(saving.alarm);
}

TEST(Watchdog, KnowsFromTheFirstStepThatARankSpinsWhichBeatsForEveryPartOfItsWork) {
  for (const char* phase : {"load", "forward", "save", "validate"}) {
    PlayedRun run;
    run.Work(120, false);  // a long start
    for (RankSnapshot& snapshot : run.snapshots) {
      snapshot.steady = true;
      snapshot.phase = phase;
    }
    run.Work(60, true);
    run.Work(9, false);
    EXPECT_FALSE(run.alarm) << phase;
    run.Work(5, false);
    ASSERT_TRUE(run.alarm) << phase;
    EXPECT_EQ(run.alarm->kind, ProcessActivity::kBusy);
  }
}

TEST(Watchdog, HasMorePatienceWithFirstStepsWhenItIsToldTo) {
  PlayedRun run(WatchLimits{.patience = 6});
  run.Steps(1);
  for (RankSnapshot& snapshot : run.snapshots) {
    snapshot.steady = true;
  }
  run.Work(55, false);
  EXPECT_FALSE(run.alarm);
  run.Work(10, false);
  EXPECT_TRUE(run.alarm);
}

TEST(Watchdog, ASaveThatOnlyComputesSpinsOnceSavesAreKnown) {
  const auto save = [](PlayedRun& run) {
    for (RankSnapshot& snapshot : run.snapshots) {
      snapshot.phase = "save";
      ++snapshot.beats;
    }
  };
  PlayedRun run;
  run.Steps(5);
  save(run);
  run.Work(50, false);
  EXPECT_FALSE(run.alarm) << "the length of a first save is not known";
  run.Work(15, false);
  EXPECT_TRUE(run.alarm);
  PlayedRun known;
  known.Steps(5);
  save(known);
  known.Work(0.4, false);
  known.Steps(1);
  save(known);
  known.Work(14, false);
  ASSERT_TRUE(known.alarm);
  EXPECT_EQ(known.alarm->kind, ProcessActivity::kBusy);
  PlayedRun writing;
  writing.Steps(5);
  save(writing);
  writing.Work(0.4, false);
  writing.Steps(1);
  save(writing);
  for (int i = 0; i < 300; ++i) {
    writing.snapshots[0].bytes_moved += 4096;
    writing.Work(0.2, false);
  }
  EXPECT_FALSE(writing.alarm);
}

TEST(Watchdog, RanksThatSpinWhileTheyWaitDoNotHideTheOneThatSleeps) {
  PlayedRun run;
  run.Steps(1);
  run.snapshots[0].waiting = true;
  for (int i = 0; i < 70; ++i, run.now += 0.2) {
    run.snapshots[0].process_cpu_seconds += 0.2;
    run.Check();
  }
  ASSERT_TRUE(run.alarm);
  EXPECT_EQ(run.alarm->kind, ProcessActivity::kIdle);
}

}  // namespace
}  // namespace trireme
