#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "faults/fault_run.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<std::string> Supervised(const std::string& drill) {
  return {"--supervise", "--stall-seconds", "1.5", "--inject", drill};
}

TEST(Supervisor, NamesASpinningRankEndsTheJobAndFinishesIt) {
  const FaultRun run;
  const Outcome outcome = run.Run(Supervised("rank=1,step=7,phase=backward,what=spin"));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("rank 1 spins in phase 'backward'"));
  EXPECT_THAT(outcome.output, HasSubstr("rank 1 stopped first: in phase 'backward' of step 7"));
  EXPECT_EQ(run.Digest(), run.UntouchedDigest());
  const std::string grave = run.folder() + "/flight/death-001";
  EXPECT_TRUE(std::filesystem::exists(grave + "/report.txt"));
  const Outcome report = run.Program({"diagnose", grave});
  EXPECT_EQ(report.code, 1);
  EXPECT_THAT(report.output, HasSubstr("rank 1 stopped first: in phase 'backward' of step 7"));
}

TEST(Supervisor, NamesARankThatNeverArrives) {
  const FaultRun run;
  const Outcome outcome = run.Run(Supervised("rank=2,step=3,phase=reduce,what=sleep"));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("rank 2 does nothing in phase 'reduce'"));
}

TEST(Supervisor, NamesARankThatIsLateToTheFirstStep) {
  const FaultRun run;
  const Outcome outcome =
      run.Run({"--supervise", "--stall-seconds", "4", "--inject", "rank=1,step=0,phase=load,what=spin"});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("late at start: rank 1 on "));
  EXPECT_THAT(outcome.output, HasSubstr("is in phase 'load' since"));
}

TEST(Supervisor, SeesAStoppedProcess) {
  const FaultRun run;
  const Outcome outcome = run.Run(Supervised("rank=3,step=2,phase=update,what=stop"));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("is stopped (SIGSTOP)"));
}

struct PhaseFault {
  std::string phase;
  std::string what;  // sleep | spin
  int step = 6;      // by then the run is known
};

std::vector<PhaseFault> PhaseFaults() {
  std::vector<PhaseFault> faults;
  for (const char* phase :
       {"batch", "forward", "backward", "reduce", "norm", "update", "check", "validate", "save", "send", "receive"}) {
    for (const char* what : {"sleep", "spin"}) {
      faults.push_back({phase, what});
    }
  }
  for (const char* what : {"sleep", "spin"}) {
    faults.insert(faults.end(), {{"load", what, 0}, {"forward", what, 1}, {"backward", what, 2}});
  }
  return faults;
}

// In the long form every phase at default settings; else two of them with a short limit.
TEST(Supervisor, NamesEveryFaultOfEveryPhase) {
  const bool every = Faults().rounds > 1;
  const std::vector<PhaseFault> faults =
      every ? PhaseFaults() : std::vector<PhaseFault>{{"norm", "sleep"}, {"save", "spin"}, {"load", "spin", 0}};
  int named = 0;
  double slowest = 0;
  for (const PhaseFault& fault : faults) {
    const bool messages = fault.phase == "send" || fault.phase == "receive";
    const FaultRun run({"validation.every=3", messages ? "layout.data=1" : "layout.data=2",
                        messages ? "layout.pipeline=2" : "layout.pipeline=1"});
    std::vector<std::string> options = {
        "--supervise", "--inject",
        "rank=1,step=" + std::to_string(fault.step) + ",phase=" + fault.phase + ",what=" + fault.what};
    if (!every) {
      options.insert(options.end(), {"--stall-seconds", "1.5"});
    }
    const Outcome outcome = run.Run(options);
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    const std::string expected =
        "rank 1 " + std::string(fault.what == "spin" ? "spins" : "does nothing") + " in phase '" + fault.phase + "'";
    EXPECT_THAT(outcome.output, HasSubstr(expected));
    named += outcome.output.find(expected) != std::string::npos ? 1 : 0;
    slowest = std::max(slowest, FaultRun::SecondsUntilNamed(outcome));
  }
  std::printf("score: %d of %zu faults of phases named, the slowest after %.1f s\n", named, faults.size(), slowest);
}

TEST(Supervisor, StartsAgainAfterKillsErrorsAndEarlyExits) {
  for (const char* what : {"kill", "throw", "exit"}) {
    const FaultRun run;
    const Outcome outcome = run.Run(Supervised(std::string("rank=1,step=5,phase=forward,what=") + what));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("the job died at step 5")) << what;
    EXPECT_EQ(run.Digest(), run.UntouchedDigest()) << what;
  }
}

TEST(Supervisor, GivesUpAfterThreeDeathsOfOneCause) {
  const FaultRun run;
  const Outcome outcome = run.Run(Supervised("rank=1,step=5,what=throw,times=9"));
  EXPECT_EQ(outcome.code, 4) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("gave up: 3 deaths at step 5 of one cause: rank 1: a drill"));
}

TEST(Supervisor, SaysNothingAboutASoundRunAndPassesOnItsCode) {
  const FaultRun run({"train.steps=400", "checkpoint.every=100"});
  // A loaded machine may hold a step up for seconds.
  const Outcome outcome = run.Run({"--supervise", "--stall-seconds", "20"});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, Not(HasSubstr("supervisor:")));
  EXPECT_EQ(run.Run({"--supervise", "--set", "layout.tensor=3"}).code, 2);
}

TEST(Supervisor, NamesAStragglerAndLeavesItAtWork) {
  const FaultRun run({"train.steps=130", "checkpoint.every=0"});
  const Outcome outcome = run.Run({"--supervise", "--inject", "rank=2,step=1,phase=forward,what=slow"});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("supervisor: a straggler: rank 2 is the last of its group in"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("died")));
  EXPECT_EQ(run.Digest(), run.UntouchedDigest());
}

TEST(Supervisor, PassesOnARequestToStop) {
  const FaultRun run({"train.steps=100000"});
  const pid_t process = run.Start({"--supervise"});
  run.AwaitStep(1);
  kill(process, SIGTERM);
  const Outcome outcome = run.Wait(process);
  EXPECT_EQ(outcome.code, 3) << outcome.output;
  EXPECT_THAT(outcome.output, Not(HasSubstr("died")));
}

}  // namespace
}  // namespace trireme
