#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "base/random.h"
#include "comm/ledger.h"
#include "faults/fault_run.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr double kMeanSeconds = 60;  // between failures, in the long form

// The process of the job that the supervisor runs now; 0: none to be seen.
pid_t JobOf(const FaultRun& run) {
  const std::string path = run.folder() + "/flight/" + LedgerName(0);
  if (!std::filesystem::exists(path)) {
    return 0;
  }
  try {
    const RankRecord record = ReadLedger(path, LedgerPart::kHead);
    return record.end == LedgerEnd::kRunning && ProcessStart(record.pid) == record.process_start ? record.pid : 0;
  } catch (const Error&) {
    return 0;  // being made
  }
}

// Strikes while the supervisor lives; how often.
int StrikeUntilItEnds(const FaultRun& run, pid_t supervisor, double mean_seconds, int most) {
  int strikes = 0;
  auto next = Clock::now() + Seconds(mean_seconds / 2);
  siginfo_t ended{};
  while (waitid(P_PID, static_cast<id_t>(supervisor), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const pid_t job = JobOf(run);
    if (Clock::now() >= next && job > 0 && strikes < most) {
      // One fault in four is a process that stands still, which takes the supervisor ten seconds to be sure of.
      const auto number = static_cast<std::uint64_t>(strikes);
      kill(job, RandomBelow(11, number, 4) == 0 ? SIGSTOP : SIGKILL);
      ++strikes;
      next = Clock::now() + Seconds(mean_seconds * (0.5 + static_cast<double>(RandomBelow(12, number, 100)) / 100));
    }
  }
  return strikes;
}

// The share of the time with faults that the same run takes without: effective training time.
TEST(Soak, UnderFaultsOfAllKindsItEndsWithTheSameBits) {
  const bool whole = Faults().soak_seconds > 0;
  const FaultRun probe({"train.steps=400", "checkpoint.every=50"});
  const auto probe_start = Clock::now();
  ASSERT_EQ(probe.Run().code, 0);
  const double step_seconds = Seconds(Clock::now() - probe_start).count() / 400;
  const double wanted = whole ? Faults().soak_seconds : 2;
  const std::string steps = std::to_string(static_cast<std::int64_t>(wanted / step_seconds));
  const std::vector<std::string> keys = {"train.steps=" + steps, "checkpoint.every=50"};

  const FaultRun untouched(keys);
  const auto untouched_start = Clock::now();
  ASSERT_EQ(untouched.Run().code, 0);
  const double without = Seconds(Clock::now() - untouched_start).count();

  const FaultRun run(keys);
  const auto start = Clock::now();
  const pid_t supervisor = run.Start({"--supervise"});
  const int strikes = StrikeUntilItEnds(run, supervisor, whole ? kMeanSeconds : 0.5, whole ? 1'000'000 : 2);
  const Outcome outcome = run.Wait(supervisor);
  const double with = Seconds(Clock::now() - start).count();
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(run.Digest(), untouched.Digest());
  std::printf("score: %d faults in %.0f s, none by hand, effective time %.1f %%\n", strikes, with,
              100 * without / with);
}

}  // namespace
}  // namespace trireme
