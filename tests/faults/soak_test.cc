#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "base/random.h"
#include "checkpoint/format/shard_header.h"
#include "checkpoint/read/checkpoint_folder.h"
#include "comm/ledger.h"
#include "faults/fault_run.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kMeanSeconds = 60;  // between failures, in the long form
// Saves hold a step up by some milliseconds; Young's interval sqrt(2 x 10 ms x 60 s) is then about a second.
constexpr int kInterval = 25;  // steps between saves

// Steps of some 40 ms on one core: what a step costs beside its computation, such as its line in the log, is then as
// small a part of the time as it is of a real run's.
std::vector<std::string> Keys(std::int64_t steps) {
  // A constant rate, so that a run's length has no part in its bits.
  return {"train.steps=" + std::to_string(steps),
          "optimizer.schedule.kind=constant",
          "checkpoint.every=" + std::to_string(kInterval),
          "model.hidden=128",
          "model.sequence=64",
          "batch.global=12"};
}

// Processes started while it lives have one half of the cores: the run that is struck and the one that it is compared
// with can then be at work at the same time. On a single core they share it.
class HalfTheCores {
 public:
  explicit HalfTheCores(int which) {
    sched_getaffinity(0, sizeof all_, &all_);
    cpu_set_t half;
    CPU_ZERO(&half);
    const int count = CPU_COUNT(&all_);
    for (int core = 0, seen = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &all_)) {
        const bool mine = count == 1 || (seen < count / 2) == (which == 0);
        mine ? CPU_SET(core, &half) : CPU_CLR(core, &half);
        ++seen;
      }
    }
    sched_setaffinity(0, sizeof half, &half);
  }
  ~HalfTheCores() { sched_setaffinity(0, sizeof all_, &all_); }
  HalfTheCores(const HalfTheCores&) = delete;
  HalfTheCores& operator=(const HalfTheCores&) = delete;

 private:
  cpu_set_t all_;
};

pid_t StartOnHalf(int which, const FaultRun& run, const std::vector<std::string>& options) {
  const HalfTheCores cores(which);
  return run.Start(options);
}

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
// Every eight strikes are these, in another order each time. One in four is a process that stands still, which takes
// the supervisor ten seconds to be sure of.
constexpr std::array<Strike, 8> kStrikes = {Strike::kKill,          Strike::kAbort, Strike::kKill, Strike::kStop,
                                            Strike::kDamageAndKill, Strike::kKill,  Strike::kStop, Strike::kKill};
constexpr double kStops = 0.25;
constexpr double kDamages = 0.125;

Strike Draw(std::uint64_t number) {
  std::array<Strike, kStrikes.size()> order = kStrikes;
  const std::uint64_t round = number / order.size();
  for (std::size_t i = order.size(); round > 0 && i > 1; --i) {
    std::swap(order[i - 1], order[RandomBelow(11, round * order.size() + i, i)]);
  }
  return order[number % order.size()];
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
  double mean = 1.5;  // seconds between strikes
  int most = 2;       // strikes
  std::int64_t steps = 150;
};

// Strikes until the run has ended; how often.
int StrikeUntilTheEnd(const FaultRun& run, pid_t supervisor, const SoakPlan& plan) {
  int strikes = 0;
  auto next = Clock::now() + Seconds(plan.mean / 2);
  while (Lives(supervisor)) {
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

struct Done {
  std::int64_t steps = 0;
  double seconds = 0;  // that these steps took, as their processes measured them
};

// What the run is made of by now: steps that were lost and done again count once.
Done DoneBy(const FaultRun& run) {
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
  return {.steps = static_cast<std::int64_t>(by_step.size()),
          .seconds = std::accumulate(by_step.begin(), by_step.end(), 0.0,
                                     [](double sum, const auto& each) { return sum + each.second; })};
}

// What is known of a run before its faults.
struct Probed {
  double share = 0;     // of the time that steps take, without faults: the rest is saves and logs
  double step = 0;      // seconds
  double downtime = 0;  // seconds of a fault of the mixture
};

Probed ProbeOf(const FaultRun& run) {
  constexpr double kProbeSeconds = 30;
  const pid_t supervisor = StartOnHalf(0, run, {"--supervise"});
  run.AwaitStep(2 * kInterval);
  const Done before = DoneBy(run);
  std::this_thread::sleep_for(Seconds(kProbeSeconds));
  const Done after = DoneBy(run);
  Probed probed{.share = (after.seconds - before.seconds) / kProbeSeconds,
                .step = (after.seconds - before.seconds) / static_cast<double>(after.steps - before.steps)};
  probed.downtime = kStops * Downtime(run, Strike::kStop);
  std::this_thread::sleep_for(Seconds(2 * kInterval * probed.step));
  probed.downtime += (1 - kStops) * Downtime(run, Strike::kKill);
  std::ofstream(run.folder() + "/stop");
  EXPECT_EQ(run.Wait(supervisor).code, 3);
  return probed;
}

// The usual formula, in per cent: a fault costs its downtime and half an interval's work; one whole interval more when
// it took the newest checkpoint with it.
double PredictedShare(const Probed& probed, double mean) {
  const double interval = kInterval * probed.step / probed.share;
  return 100 * probed.share * (1 - (probed.downtime + interval * (0.5 + kDamages)) / mean);
}

TEST(Soak, UnderFaultsOfAllKindsItEndsWithTheSameBits) {
  const bool whole = Faults().soak_seconds > 0;
  SoakPlan plan;
  double predicted = 0;
  Probed probed;
  if (whole) {
    probed = ProbeOf(FaultRun(Keys(1'000'000'000)));
    predicted = PredictedShare(probed, kMeanSeconds);
    plan = {.mean = kMeanSeconds,
            .most = 1'000'000,
            .steps = static_cast<std::int64_t>(Faults().soak_seconds * predicted / 100 / probed.step)};
  }

  const FaultRun untouched(Keys(plan.steps));
  const pid_t reference = StartOnHalf(1, untouched, {"--set", "checkpoint.every=0"});
  const FaultRun run(Keys(plan.steps));
  const auto start = Clock::now();
  const pid_t supervisor = StartOnHalf(0, run, {"--supervise"});
  const int strikes = StrikeUntilTheEnd(run, supervisor, plan);
  const double seconds = Seconds(Clock::now() - start).count();
  const Outcome outcome = run.Wait(supervisor);
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(run.SavedStep(), plan.steps);
  std::printf("score: %d faults in %.0f s, none by hand, effective time %.1f %%", strikes, seconds,
              100 * DoneBy(run).seconds / seconds);
  if (whole) {
    std::printf(" (predicted %.1f %%, of %.1f %% without faults; %.1f s down a fault)", predicted, 100 * probed.share,
                probed.downtime);
  }
  std::printf("\n");

  EXPECT_EQ(untouched.Wait(reference).code, 0);
  EXPECT_EQ(run.Digest(), untouched.Digest());
}

}  // namespace
}  // namespace trireme
