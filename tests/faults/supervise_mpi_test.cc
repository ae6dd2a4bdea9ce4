#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <thread>

#include "base/random.h"
#include "comm/ledger.h"
#include "faults/fault_run.h"

namespace trireme {
namespace {

using testing::HasSubstr;

std::vector<std::string> SupervisedOverMpi(const std::string& drill) {
  return {"--supervise", "--launcher", TRIREME_LAUNCHER " -n 4", "--stall-seconds", "2", "--inject", drill};
}

TEST(SupervisorOverMpi, NamesTheOneProcessThatIsStopped) {
  const FaultRun run;
  const Outcome outcome = run.Run(SupervisedOverMpi("rank=2,step=6,phase=forward,what=stop"));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("rank 2 is stopped (SIGSTOP) in phase 'forward'"));
  EXPECT_EQ(run.Digest(), run.UntouchedDigest());
}

// In the long form every phase at default settings.
TEST(SupervisorOverMpi, NamesTheStoppedProcessInEveryPhase) {
  const bool every = Faults().rounds > 1;
  const std::vector<std::string> phases =
      every ? std::vector<std::string>{"load",   "batch", "forward", "backward", "send",     "receive",
                                       "reduce", "norm",  "update",  "check",    "validate", "save"}
            : std::vector<std::string>{"reduce"};
  double slowest = 0;
  for (const std::string& phase : phases) {
    const bool messages = phase == "send" || phase == "receive";
    const FaultRun run({"validation.every=3", messages ? "layout.data=1" : "layout.data=2",
                        messages ? "layout.pipeline=2" : "layout.pipeline=1"});
    const std::string step = phase == "load" ? "0" : "6";
    const Outcome outcome =
        run.Run({"--supervise", "--launcher", TRIREME_LAUNCHER " -n 4", "--stall-seconds", every ? "10" : "2",
                 "--inject", "rank=3,step=" + step + ",phase=" + phase + ",what=stop"});
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("rank 3 is stopped (SIGSTOP) in phase '" + phase + "'"));
    slowest = std::max(slowest, FaultRun::SecondsUntilNamed(outcome));
  }
  std::printf("score: a stopped process named in %zu phases, the slowest after %.1f s\n", phases.size(), slowest);
}

// Gives a rank's process this share of the time only, in slices of some milliseconds, until the supervisor names the
// rank. The steps that were made until then; -1: it was not named in some minutes.
std::int64_t StepsUntilNamed(const FaultRun& run, int rank, double share) {
  constexpr double kPeriod = 0.04;
  constexpr int kPeriods = 5000;
  const pid_t process = ReadLedger(run.folder() + "/flight/" + LedgerName(rank), LedgerPart::kHead).pid;
  const std::string named = "a straggler: rank " + std::to_string(rank) + " ";
  const std::int64_t onset = run.LoggedStep();
  for (int i = 0; i < kPeriods; ++i) {
    kill(process, SIGSTOP);
    std::this_thread::sleep_for(Seconds(kPeriod * (1 - share)));
    kill(process, SIGCONT);
    std::this_thread::sleep_for(Seconds(kPeriod * share));
    if (i % 5 == 0 && run.Output().find(named) != std::string::npos) {
      return run.LoggedStep() - onset;
    }
  }
  return -1;
}

// In the long form steps take a third of a second, so that 50 of them are longer than the ten seconds that the
// supervisor needs to be sure, and a rank is 30 % slower than the others, as one whose clock was lowered. Else it is
// half as fast. There are no more ranks than cores where two will do: who waits for a core loses nothing by being
// stopped meanwhile.
TEST(SupervisorOverMpi, FindsAProcessThatGetsLessOfTheTime) {
  const bool whole = Faults().rounds > 1;
  const int data = std::thread::hardware_concurrency() >= 4 ? 2 : 1;
  std::vector<std::int64_t> steps;
  for (int i = 0; i < Faults().rounds; ++i) {
    const FaultRun run({"train.steps=1000000", "checkpoint.every=0", "model.heads=4", "model.sequence=64",
                        whole ? "model.hidden=256" : "model.hidden=64", whole ? "batch.global=40" : "batch.global=4",
                        fmt::format("layout.data={}", data)});
    const pid_t supervisor =
        run.Start({"--supervise", "--launcher", fmt::format("{} -n {}", TRIREME_LAUNCHER, 2 * data)});
    run.AwaitStep(25);
    steps.push_back(StepsUntilNamed(run, i % (2 * data), whole ? 1 / 1.3 : 0.5));
    std::ofstream(run.folder() + "/stop");
    const Outcome outcome = run.Wait(supervisor);
    EXPECT_EQ(outcome.code, 3) << outcome.output;
    EXPECT_GE(steps.back(), 0) << outcome.output;
  }
  std::printf("score: %td of %zu processes named within 50 steps; after %s\n",
              std::count_if(steps.begin(), steps.end(), [](std::int64_t n) { return n >= 0 && n <= 50; }), steps.size(),
              fmt::format("{}", fmt::join(steps, ", ")).c_str());
}

TEST(SupervisorOverMpi, StartsAgainAfterARankIsKilled) {
  const FaultRun run;
  const Outcome outcome = run.Run(SupervisedOverMpi("rank=1,step=5,phase=reduce,what=kill"));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("the job died at step 5"));
  EXPECT_EQ(run.Digest(), run.UntouchedDigest());
}

// A signal for the launcher reaches every rank; one for a rank is told to all by that rank. Open MPI's launcher gives
// ranks two seconds unless told otherwise, which a busy machine's disk may exceed; it takes all the time it gives.
TEST(SignalsOverMpi, TerminatedAtAnyMomentItLosesNoStep) {
  const bool launchers = Faults().rounds > 1;
  const int times = launchers ? 20 : 2;
  const FaultRun run({"train.steps=1000000", "checkpoint.every=0"});
  std::int64_t before = 0;
  for (int i = 0; i < times; ++i) {
    const pid_t launcher =
        run.Start({}, {"sh", "-c", "OMPI_MCA_odls_base_sigkill_timeout=5 exec " TRIREME_LAUNCHER " -n 4 \"$@\"", "sh"});
    run.AwaitStep(before + 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(RandomBelow(4, static_cast<std::uint64_t>(i), 100)));
    const pid_t rank = ReadLedger(run.folder() + "/flight/" + LedgerName(i % 4), LedgerPart::kHead).pid;
    const bool to_launcher = launchers && i % 2 != 0;
    kill(to_launcher ? launcher : rank, SIGTERM);
    const Outcome outcome = run.Wait(launcher);
    ASSERT_TRUE(to_launcher || outcome.code == 3) << outcome.output;
    ASSERT_EQ(run.SavedStep(), run.LoggedStep());
    ASSERT_GT(run.SavedStep(), before);
    before = run.SavedStep();
  }
  std::printf("score: %d of %d terminations over MPI saved every step\n", times, times);
}

TEST(SignalsOverMpi, AFolderThatIsRemovedAgainAndAgainHoldsNobodyUp) {
  const FaultRun run({"train.steps=1000000", "checkpoint.every=2"});
  const pid_t launcher = run.Start({}, {"sh", "-c", "exec " TRIREME_LAUNCHER " -n 4 \"$@\"", "sh"});
  run.AwaitStep(3);
  const pid_t rank = ReadLedger(run.folder() + "/flight/" + LedgerName(1), LedgerPart::kHead).pid;
  RemoveAgainAndAgain(run.folder());
  kill(rank, SIGTERM);
  const Outcome outcome = run.Wait(launcher);
  EXPECT_EQ(outcome.code, 3) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("removed"));
  EXPECT_EQ(run.Program({"checkpoint", "verify", run.folder()}).code, 0);
}

}  // namespace
}  // namespace trireme
