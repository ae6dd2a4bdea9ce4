#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <thread>

#include "base/random.h"
#include "faults/fault_run.h"

namespace trireme {
namespace {

using testing::HasSubstr;

TEST(KillLoop, KilledAtRandomMomentsItEndsWithTheSameBits) {
  const std::string steps = std::to_string(20 * KillCount());
  const FaultRun run({"train.steps=" + steps});
  const std::string untouched = run.UntouchedDigest();
  int killed = 0;
  for (std::uint64_t i = 0; killed < KillCount() && i < 20ULL * static_cast<std::uint64_t>(KillCount()); ++i) {
    const pid_t process = run.Start();
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + RandomBelow(5, i, 120)));
    kill(process, SIGKILL);
    const Outcome outcome = run.Wait(process);
    ASSERT_TRUE(outcome.signal == SIGKILL || outcome.code == 0) << outcome.output;
    if (outcome.code == 0) {
      break;
    }
    ++killed;
  }
  const Outcome last = run.Run();
  EXPECT_EQ(last.code, 0) << last.output;
  EXPECT_EQ(run.Digest(), untouched);
  std::printf("%d kills, state digest %s\n", killed, untouched.c_str());
}

class SavePoints : public testing::TestWithParam<const char*> {};

TEST_P(SavePoints, KilledThereOnAnyRankTheNextStartGoesOn) {
  const std::string point = GetParam();
  const FaultRun first;
  const std::string untouched = first.UntouchedDigest();
  for (const int rank : {0, 3}) {
    // Only rank 0 writes manifests and renames.
    const bool reached = rank == 0 || point == "snapshot" || point == "open" || point == "mid-shard" ||
                         point == "before-sync" || point == "after-sync";
    if (!reached) {
      continue;
    }
    const FaultRun run;
    const Outcome killed =
        run.Run({"--inject", "rank=" + std::to_string(rank) + ",step=6,save=" + point + ",what=kill"});
    EXPECT_EQ(killed.signal, SIGKILL) << killed.output;
    const Outcome again = run.Run();
    EXPECT_EQ(again.code, 0) << again.output;
    EXPECT_THAT(again.output, HasSubstr("resumed after step"));
    EXPECT_EQ(run.Digest(), untouched);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, SavePoints,
                         testing::Values("snapshot", "open", "mid-shard", "before-sync", "after-sync",
                                         "before-manifest", "mid-manifest", "before-rename", "after-rename", "prune"),
                         [](const auto& point) {
                           std::string name = point.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(RunFolder, ASecondJobIsRefusedAndTheFirstGoesOn) {
  const FaultRun run({"train.steps=100000", "checkpoint.every=0"});
  const pid_t first = run.Start();
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  const Outcome second = run.Program({"train", run.recipe(), "--run", run.folder()});
  EXPECT_EQ(second.code, 2) << second.output;
  EXPECT_THAT(second.output, HasSubstr("another job is at work in this run folder"));
  EXPECT_THAT(second.output, HasSubstr("process " + std::to_string(first)));
  kill(first, SIGTERM);
  EXPECT_EQ(run.Wait(first).code, 3);
}

TEST(Signals, TerminatedItSavesLeavesWithThreeAndGoesOn) {
  const FaultRun run({"train.steps=4000", "checkpoint.every=0"});
  const pid_t process = run.Start();
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  kill(process, SIGTERM);
  const Outcome outcome = run.Wait(process);
  EXPECT_EQ(outcome.code, 3) << outcome.output;
  EXPECT_EQ(run.Program({"diagnose", run.folder()}).code, 0);
  EXPECT_NE(run.Digest(), "no checkpoint");
}

TEST(Walltime, SavesAndLeavesBeforeTheTimeIsUp) {
  const FaultRun run({"train.steps=1000000", "checkpoint.every=0"});
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome = run.Run({"--walltime", "30", "--exit-before", "29"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_NE(run.Digest(), "no checkpoint");
}

TEST(Walltime, WithoutAnEndItSaysWhatIsMissing) {
  const FaultRun run;
  const Outcome outcome = run.Run({"--exit-before", "60"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("--walltime"));
}

}  // namespace
}  // namespace trireme
