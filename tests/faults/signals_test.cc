#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/random.h"
#include "faults/fault_run.h"

namespace trireme {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kEndless = {"train.steps=1000000", "checkpoint.every=0"};

TEST(Signals, TerminatedAtAnyMomentItLeavesWithThreeAndLosesNoStep) {
  const int times = Faults().rounds > 1 ? 50 : 3;
  const FaultRun run(kEndless);
  std::int64_t before = 0;
  for (int i = 0; i < times; ++i) {
    const pid_t process = run.Start();
    run.AwaitStep(before + 1);
    std::this_thread::sleep_for(milliseconds(RandomBelow(3, static_cast<std::uint64_t>(i), 100)));
    kill(process, SIGTERM);
    const Outcome outcome = run.Wait(process);
    ASSERT_EQ(outcome.code, 3) << outcome.output;
    ASSERT_EQ(run.SavedStep(), run.LoggedStep());
    ASSERT_GT(run.SavedStep(), before);
    before = run.SavedStep();
  }
  EXPECT_EQ(run.Program({"diagnose", run.folder()}).code, 0);
  std::printf("score: %d of %d terminations saved every step\n", times, times);
}

TEST(Signals, AskedAgainWhileItSavesItStillSaves) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const FaultRun run(kEndless);
    const pid_t process = run.Start();
    run.AwaitStep(2);
    for (int i = 0; i < 5; ++i) {
      kill(process, signal);
      std::this_thread::sleep_for(milliseconds(3));
    }
    EXPECT_EQ(run.Wait(process).code, 3);
    EXPECT_EQ(run.SavedStep(), run.LoggedStep());
    EXPECT_EQ(run.Program({"checkpoint", "verify", run.folder()}).code, 0);
  }
}

// SIGKILL ends what ignores a request for a minute: then the exit code tells.
const std::vector<std::string> kAtMostAMinute = {"timeout", "--foreground", "--signal=KILL", "60"};

TEST(Signals, EndARunThatHasNotBegunToTrain) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const FaultRun run(kEndless);
    const pid_t process = run.Start({"--inject", "rank=1,step=0,phase=load,what=sleep"}, kAtMostAMinute);
    run.AwaitDrill();
    kill(process, signal);
    const Outcome outcome = run.Wait(process);
    EXPECT_EQ(outcome.code, 3) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("before the first step"));
    EXPECT_EQ(run.Program({"diagnose", run.folder()}).code, 0);
  }
}

TEST(Signals, EndAStepInWhichARankHangs) {
  for (const char* what : {"sleep", "spin"}) {
    const FaultRun run(kEndless);
    const pid_t process =
        run.Start({"--inject", fmt::format("rank=1,step=3,phase=forward,what={}", what)}, kAtMostAMinute);
    run.AwaitDrill();
    kill(process, SIGTERM);
    const Outcome outcome = run.Wait(process);
    EXPECT_EQ(outcome.code, 1) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("the step under way is finished and saved"));
    EXPECT_THAT(outcome.output, HasSubstr("no rank of this process has moved"));
    EXPECT_THAT(outcome.output, HasSubstr("rank 1 stopped first: in phase 'forward' of step 3"));
  }
}

TEST(Signals, UserSignalOneSavesAndGoesOn) {
  const FaultRun run(kEndless);
  const pid_t process = run.Start();
  run.AwaitStep(2);
  kill(process, SIGUSR1);
  run.AwaitSave();
  const std::int64_t saved = run.SavedStep();
  EXPECT_GT(saved, 0);
  run.AwaitStep(saved + 5);
  EXPECT_GT(run.LoggedStep(), saved);
  kill(process, SIGTERM);
  EXPECT_EQ(run.Wait(process).code, 3);
}

TEST(Switches, AFileSavesAndAnotherStops) {
  const FaultRun run(kEndless);
  const pid_t process = run.Start();
  run.AwaitStep(2);
  std::ofstream(run.folder() + "/save");
  run.AwaitSave();
  EXPECT_GT(run.SavedStep(), 0);
  EXPECT_FALSE(std::filesystem::exists(run.folder() + "/save"));
  std::ofstream(run.folder() + "/stop");
  const Outcome outcome = run.Wait(process);
  EXPECT_EQ(outcome.code, 3) << outcome.output;
  EXPECT_EQ(run.SavedStep(), run.LoggedStep());
  EXPECT_FALSE(std::filesystem::exists(run.folder() + "/stop")) << "or the next start would stop at once";
}

TEST(Walltime, SavesAndLeavesWhenItNears) {
  const FaultRun run(kEndless);
  const Outcome outcome = run.Run({"--walltime", "100000", "--exit-before", "99999"});
  EXPECT_EQ(outcome.code, 3) << outcome.output;
  EXPECT_GT(run.SavedStep(), 0);
  EXPECT_EQ(run.SavedStep(), run.LoggedStep());
}

TEST(Walltime, FarAwayItChangesNothing) {
  const FaultRun run;
  const Outcome outcome = run.Run({"--walltime", "100000", "--exit-before", "1"});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(run.SavedStep(), 12);
}

TEST(Walltime, WithoutAnEndItSaysWhatIsMissing) {
  const FaultRun run;
  const Outcome outcome = run.Run({"--exit-before", "60"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("--walltime"));
}

TEST(RunFolder, ASecondJobIsRefusedAndTheFirstGoesOn) {
  const FaultRun run(kEndless);
  const pid_t first = run.Start();
  run.AwaitStep(1);
  const Outcome second = run.Program({"train", run.recipe(), "--run", run.folder()});
  EXPECT_EQ(second.code, 2) << second.output;
  EXPECT_THAT(second.output, HasSubstr("another job is at work in this run folder"));
  EXPECT_THAT(second.output, HasSubstr("process " + std::to_string(first)));
  kill(first, SIGTERM);
  EXPECT_EQ(run.Wait(first).code, 3);
}

}  // namespace
}  // namespace trireme
