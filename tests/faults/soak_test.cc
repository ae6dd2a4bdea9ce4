#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "base/random.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/shard_header.h"
#include "comm/ledger.h"
#include "faults/fault_run.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr double kMeanSeconds = 60;  // between failures, in the long form
constexpr int kInterval = 200;       // steps between saves: some seconds

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

enum class Strike { kStop, kAbort, kKill, kDamageAndKill };
constexpr int kStrikeShares = 8;

// One in four is a process that stands still, which takes the supervisor ten seconds to be sure of.
Strike Draw(std::uint64_t number) {
  switch (RandomBelow(11, number, kStrikeShares)) {
    case 0:
    case 1:
      return Strike::kStop;
    case 2:
      return Strike::kAbort;
    case 3:
      return Strike::kDamageAndKill;
    default:
      return Strike::kKill;
  }
}

void Hit(const FaultRun& run, pid_t job, Strike strike) {
  if (strike == Strike::kDamageAndKill) {
    if (const auto newest = FindNewest(run.folder() + "/checkpoints")) {
      std::fstream file(newest->checkpoint.path + "/" + ShardFileName(0),
                        std::ios::in | std::ios::out | std::ios::binary | std::ios::ate);
      file.seekp(static_cast<std::streamoff>(file.tellp()) - 8);
      file.write("damaged", 7);
    }
  }
  kill(job, strike == Strike::kStop ? SIGSTOP : strike == Strike::kAbort ? SIGABRT : SIGKILL);
}

bool Lives(pid_t process) {
  siginfo_t ended{};
  return waitid(P_PID, static_cast<id_t>(process), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0;
}

// Seconds from a strike until a later process has ended its first step.
double Downtime(const FaultRun& run, Strike strike) {
  const pid_t job = JobOf(run);
  const auto start = Clock::now();
  Hit(run, job, strike);
  while (Seconds(Clock::now() - start).count() < 120) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (const pid_t next = JobOf(run); next != 0 && next != job) {
      const RankRecord record = ReadLedger(run.folder() + "/flight/" + LedgerName(0), LedgerPart::kHead);
      if (record.first_step > 0 && record.step > record.first_step) {
        break;
      }
    }
  }
  return Seconds(Clock::now() - start).count();
}

struct SoakPlan {
  double seconds = 4;
  double mean = 1.5;  // between strikes
  int most = 2;       // strikes
};

// Strikes for as long as the plan says; how often.
int StrikeForAWhile(const FaultRun& run, pid_t supervisor, const SoakPlan& plan) {
  int strikes = 0;
  const auto end = Clock::now() + Seconds(plan.seconds);
  auto next = Clock::now() + Seconds(plan.mean / 2);
  while (Clock::now() < end && Lives(supervisor)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const pid_t job = JobOf(run);
    if (Clock::now() >= next && job > 0 && strikes < plan.most) {
      const auto number = static_cast<std::uint64_t>(strikes++);
      Hit(run, job, Draw(number));
      next = Clock::now() + Seconds(plan.mean * (0.5 + static_cast<double>(RandomBelow(12, number, 100)) / 100));
    }
  }
  return strikes;
}

// Seconds that the steps took which the run is made of in the end.
double ProductiveSeconds(const FaultRun& run) {
  std::ifstream file(run.folder() + "/metrics.jsonl");
  std::map<std::int64_t, double> by_step;
  for (std::string line; std::getline(file, line);) {
    std::int64_t step = 0;
    double seconds = 0;
    const std::size_t at = line.find("\"seconds\":");
    if (at != std::string::npos && std::sscanf(line.c_str(), "{\"step\":%ld", &step) == 1 &&
        std::sscanf(line.c_str() + at, "\"seconds\":%lf", &seconds) == 1) {
      by_step[step] = seconds;
    }
  }
  return std::accumulate(by_step.begin(), by_step.end(), 0.0,
                         [](double sum, const auto& each) { return sum + each.second; });
}

// What is known of a run before its faults.
struct Probed {
  double share = 0;     // of the time that steps take, without faults
  double downtime = 0;  // seconds of a fault of the mixture
};

Probed ProbeOf(const FaultRun& run) {
  constexpr double kProbeSeconds = 30;
  const pid_t supervisor = run.Start({"--supervise"});
  run.AwaitStep(100);
  const double before = ProductiveSeconds(run);
  std::this_thread::sleep_for(Seconds(kProbeSeconds));
  Probed probed{.share = (ProductiveSeconds(run) - before) / kProbeSeconds};
  probed.downtime = 0.25 * Downtime(run, Strike::kStop) + 0.75 * Downtime(run, Strike::kKill);
  std::ofstream(run.folder() + "/stop");
  EXPECT_EQ(run.Wait(supervisor).code, 3);
  return probed;
}

// The usual formula: a fault costs its downtime and half an interval's work.
double PredictedShare(const Probed& probed, double interval, double mean) {
  return 100 * probed.share * (1 - (probed.downtime + interval / 2) / mean);
}

std::vector<std::string> Keys(std::int64_t steps) {
  // A constant rate, so that a run's length has no part in its bits.
  return {"train.steps=" + std::to_string(steps), "optimizer.schedule.kind=constant",
          "checkpoint.every=" + std::to_string(kInterval)};
}

TEST(Soak, UnderFaultsOfAllKindsItEndsWithTheSameBits) {
  const bool whole = Faults().soak_seconds > 0;
  const SoakPlan plan =
      whole ? SoakPlan{static_cast<double>(Faults().soak_seconds), kMeanSeconds, 1'000'000} : SoakPlan{};
  const Probed probed = whole ? ProbeOf(FaultRun(Keys(1'000'000'000))) : Probed{};

  const FaultRun run(Keys(1'000'000'000));
  const auto start = Clock::now();
  const pid_t supervisor = run.Start({"--supervise"});
  const int strikes = StrikeForAWhile(run, supervisor, plan);
  std::ofstream(run.folder() + "/stop");
  const Outcome outcome = run.Wait(supervisor);
  const double seconds = Seconds(Clock::now() - start).count();
  EXPECT_EQ(outcome.code, 3) << outcome.output;
  const double productive = ProductiveSeconds(run);
  const std::int64_t steps = run.SavedStep();
  ASSERT_GT(steps, 0);
  std::printf("score: %d faults in %.0f s, none by hand, effective time %.1f %%", strikes, seconds,
              100 * productive / seconds);
  if (whole) {
    const double interval = kInterval * seconds / static_cast<double>(steps);
    std::printf(" (predicted %.1f %%, of %.1f %% without faults)", PredictedShare(probed, interval, seconds / strikes),
                100 * probed.share);
  }
  std::printf("\n");

  const FaultRun untouched(Keys(steps));
  ASSERT_EQ(untouched.Run({"--set", "checkpoint.every=0"}).code, 0);
  EXPECT_EQ(run.Digest(), untouched.Digest());
}

}  // namespace
}  // namespace trireme
