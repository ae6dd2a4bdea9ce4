#include "operate/supervisor.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>

#include "base/durable_file.h"
#include "base/error.h"
#include "operate/flight_report.h"
#include "operate/native_stacks.h"
#include "operate/process_probe.h"
#include "operate/stop_signals.h"
#include "operate/stragglers.h"
#include "operate/supervisor_process.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int kSameDeaths = 3;
constexpr int kDeathsWithoutProgress = 10;
constexpr std::size_t kMostStacks = 8;
constexpr double kStackSeconds = 8;
constexpr double kMorePatience = 6;
// Between looks for stragglers: so many times as long as a look took.
constexpr double kCheckRests = 20;
// Between looks at all ranks: likewise, but no longer than this part of the time that ranks may stand still, since a
// standstill between two looks is taken for one of the ranks.
constexpr double kLookRests = 4;
constexpr double kLongestRestPart = 0.25;
// Before a first step a rank is named that others wait for, after this part of the time that ranks may stand still.
constexpr double kLatePart = 0.5;

struct Death {
  std::int64_t step = 0;
  std::string cause;  // equal for equal causes: no times, no process numbers
};

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

class Supervisor {
 public:
  explicit Supervisor(const SupervisorOptions& options)
      : options_(options), flight_(options.run_folder + "/flight"), limits_(options.limits), watchdog_(limits_) {}

  int Run() {
    RefuseLink(flight_);
    MakeDirectories(flight_);
    RemoveLedgers();
    std::int64_t furthest = -1;
    int without_progress = 0;
    std::vector<Death> same;
    while (true) {
      const int code = RunOnce();
      if (code >= 0) {
        return code;
      }
      without_progress = death_.step > furthest ? 1 : without_progress + 1;
      furthest = std::max(furthest, death_.step);
      if (!same.empty() && (same.back().step != death_.step || same.back().cause != death_.cause)) {
        same.clear();
      }
      same.push_back(death_);
      const bool again = same.size() >= kSameDeaths;
      if (again || without_progress >= kDeathsWithoutProgress) {
        Say(fmt::format("gave up: {} deaths {}: {}", again ? same.size() : static_cast<std::size_t>(without_progress),
                        again ? fmt::format("at step {} of one cause", death_.step) : "without progress",
                        death_.cause));
        return kExitGaveUp;
      }
      Say("starting the job again from its newest good checkpoint");
    }
  }

 private:
  // The job's exit code, or -1 when it died: then death_ says how.
  int RunOnce() {
    watchdog_ = Watchdog(limits_);
    stragglers_ = {};
    JobProcess job(options_.command);
    late_ = {.since = Now()};
    while (!job.AwaitEnd(RestSeconds())) {
      if (PassOnSignals(job)) {
        Say("asked to stop a second time: the job is ended without a save");
        job.End(0, ReadFlight(flight_).ranks);
        return kExitFailed;
      }
      CheckForStragglers();
      const double start = Now();
      const std::vector<RankSnapshot> snapshots = Snapshots();
      NameLateRanks(snapshots);
      look_seconds_ = Now() - start;
      if (const std::optional<Alarm> alarm = watchdog_.Check(Now(), snapshots)) {
        return EndStalled(job, *alarm, snapshots);
      }
    }
    return EndOf(job);
  }

  double RestSeconds() const {
    const double most = kLongestRestPart * options_.limits.floor;
    return std::max(options_.poll_seconds, std::min(kLookRests * look_seconds_, most));
  }

  // A rank that stays slow is told once; the run goes on.
  void CheckForStragglers() {
    const double start = Now();
    if (start < next_straggler_check_) {
      return;
    }
    const FlightReport report = ReadFlight(flight_);
    for (const Straggler& each : stragglers_.Check(start, report.step(), report.ranks)) {
      Say("a straggler: " + each.text);
    }
    // The ledgers of many ranks take long to read: that must not become the supervisor's main work.
    next_straggler_check_ = start + std::max(options_.straggler_seconds, kCheckRests * (Now() - start));
  }

  // Ranks that others wait for before the first step are named once: a node that starts slowly, or not at all, holds up
  // all others, and no step shows it.
  void NameLateRanks(const std::vector<RankSnapshot>& snapshots) {
    const bool begun = std::any_of(snapshots.begin(), snapshots.end(),
                                   [](const RankSnapshot& snapshot) { return snapshot.steps_before > 0; });
    late_.over = late_.over || begun;
    const double patience = kLatePart * options_.limits.floor;
    if (late_.over || snapshots.empty() || Now() - late_.since < patience) {
      return;
    }
    late_.since = Now() + kCheckRests * look_seconds_;  // the next look, should nothing wait now
    const FlightReport report = ReadFlight(flight_);
    const std::int64_t before = WallNanoseconds() - static_cast<std::int64_t>(patience * 1e9);
    const auto waits_long = [&](std::size_t place) {
      const LedgerCall* const call = report.ranks[place].InCall();
      return !report.waits_for[place].empty() && call != nullptr && call->started_ns < before;
    };
    std::size_t waiting = 0;
    for (std::size_t place = 0; place < report.ranks.size(); ++place) {
      waiting += waits_long(place) ? 1 : 0;
    }
    if (waiting == 0 || report.suspects.empty() || report.deadlock) {
      return;
    }
    late_.over = true;
    Say(DescribeLate(report, waiting));
  }

  // "late at start: rank 5 on node7 is in phase 'load' since 07:30:12.345, 63 ranks wait for it"
  static std::string DescribeLate(const FlightReport& report, std::size_t waiting) {
    const int first = report.suspects.front();
    const RankRecord* const record = report.Find(first);
    const std::string others =
        report.suspects.size() == 1 ? "" : fmt::format(" (ranks {} too)", RankRanges(report.suspects));
    return fmt::format("late at start: rank {} {}{}; {} rank{} of {} wait{} for {} to begin the first step", first,
                       record == nullptr ? "has left no ledger yet"
                                         : fmt::format("on {} is in phase '{}' since {}", record->host, record->phase,
                                                       ClockTime(record->phase_ns)),
                       others, waiting, waiting == 1 ? "" : "s", report.ranks.front().world(), waiting == 1 ? "s" : "",
                       report.suspects.size() == 1 ? "it" : "them");
  }

  // True when the job was asked to stop before: it may hang, and a user who asks twice does not want to wait.
  bool PassOnSignals(const JobProcess& job) {
    const StopRequest request = signals_.Pending();
    if (request != StopRequest::kNone) {
      signals_.Clear();
      if (asked_to_stop_ && request == StopRequest::kSaveAndStop) {
        return true;
      }
      job.Signal(request == StopRequest::kSave ? SIGUSR1 : SIGTERM);
      asked_to_stop_ = asked_to_stop_ || request == StopRequest::kSaveAndStop;
    }
    return false;
  }

  // What ranks look like from outside. Who waits for whom costs more to find out, and counts only for a silent run.
  std::vector<RankSnapshot> Snapshots() {
    std::vector<RankSnapshot> snapshots;
    std::uint64_t beats = 0;
    std::map<int, RankSnapshot> processes;
    for (const std::string& path : ListLedgers(flight_)) {
      try {
        const RankRecord head = ReadLedger(path, LedgerPart::kHead);
        snapshots.push_back(SnapshotOf(head, processes, host_));
        beats += head.beats;
      } catch (const Error&) {
        continue;  // being made
      }
    }
    const double now = Now();
    if (beats != beats_ || snapshots.size() != seen_) {
      beats_ = beats;
      seen_ = snapshots.size();
      silent_since_ = now;
      waiting_.reset();
    } else if (now - silent_since_ > options_.limits.floor / 2) {
      if (!waiting_) {
        waiting_ = WaitingRanks(ReadFlight(flight_));  // once: nothing moves any more
      }
      for (RankSnapshot& snapshot : snapshots) {
        snapshot.waiting = waiting_->count(snapshot.rank) > 0;
      }
    }
    return snapshots;
  }

  static std::set<int> WaitingRanks(const FlightReport& report) {
    std::set<int> waiting;
    for (std::size_t place = 0; place < report.ranks.size(); ++place) {
      if (!report.waits_for[place].empty()) {
        waiting.insert(report.ranks[place].rank);
      }
    }
    return waiting;
  }

  // `processes`: those looked at already, since thread ranks share one.
  static RankSnapshot SnapshotOf(const RankRecord& head, std::map<int, RankSnapshot>& processes,
                                 const std::string& host) {
    const auto [place, is_new] = processes.try_emplace(head.pid);
    RankSnapshot& process = place->second;
    const bool here = ProcessStart(head.pid) == head.process_start;
    if (is_new && here) {
      for (const int thread : ThreadsOf(head.pid)) {
        const ThreadProbe probe = ProbeThread(head.pid, thread);
        process.process_cpu_seconds += probe.cpu_seconds;
        process.process_on_disk = process.process_on_disk || probe.state == 'D';
      }
      process.bytes_moved = BytesMoved(head.pid);
    }
    RankSnapshot snapshot = process;
    const ThreadProbe probe = here ? ProbeThread(head.pid, head.thread) : ThreadProbe{};
    snapshot.rank = head.rank;
    snapshot.process = here ? head.pid : 0;
    snapshot.beats = head.beats;
    snapshot.steady = head.steady;
    snapshot.step = head.step;
    snapshot.steps_before = head.first_step > 0 ? head.step - head.first_step : 0;
    snapshot.phase = head.phase;
    snapshot.state = !here && head.end == LedgerEnd::kRunning && head.host == host ? 'X' : probe.state;
    snapshot.cpu_seconds = probe.cpu_seconds;
    return snapshot;
  }

  int EndStalled(JobProcess& job, const Alarm& alarm, const std::vector<RankSnapshot>& snapshots) {
    const FlightReport report = ReadFlight(flight_);
    const std::string kind = NameStall(report, alarm, snapshots);
    Say(fmt::format("no rank has moved for {:.1f} s (limit {:.1f} s): {}", alarm.seconds, alarm.limit, kind));
    Say(report.headline);
    std::set<int> processes;
    for (const RankRecord& record : report.ranks) {
      if (processes.size() < kMostStacks && ProcessStart(record.pid) == record.process_start &&
          processes.insert(record.pid).second) {
        CollectStacks(record.pid, fmt::format("{}/stacks-{}.txt", flight_, record.pid), kStackSeconds);
      }
    }
    // Ranks that stand still answer no request; only a launcher has something to do before it ends.
    job.End(job.HoldsAll(report.ranks) ? 0 : options_.grace_seconds, report.ranks);
    // Should it have been honest work after all, the next start has time for it.
    limits_.patience *= alarm.kind == ProcessActivity::kBusy ? kMorePatience : 1;
    Bury({.step = report.step(), .cause = kind}, report);
    return asked_to_stop_ ? kExitFailed : -1;
  }

  // "rank 1 is stopped (SIGSTOP) in phase 'forward', in no collective"
  static std::string NameStall(const FlightReport& report, const Alarm& alarm,
                               const std::vector<RankSnapshot>& snapshots) {
    std::size_t place = 0;
    for (std::size_t i = 0; i < snapshots.size(); ++i) {
      const bool suspected = !report.suspects.empty() && snapshots[i].rank == report.suspects.front();
      // Dead and stopped ranks before the one that others wait for.
      const ProcessActivity now = std::min(alarm.by_rank[i], ProcessActivity::kIdle);
      const ProcessActivity before = std::min(alarm.by_rank[place], ProcessActivity::kIdle);
      if (now < before || (suspected && now == before)) {
        place = i;
      }
    }
    // A thread that spins gets little of a busy machine; one that sleeps gets nothing.
    const bool spins = alarm.cpu_share[place] > 0.05;
    const char* how = alarm.by_rank[place] == ProcessActivity::kDead      ? "is dead"
                      : alarm.by_rank[place] == ProcessActivity::kStopped ? "is stopped (SIGSTOP)"
                      : report.deadlock                                   ? "waits in a ring of ranks"
                      : spins                                             ? "spins"
                                                                          : "does nothing";
    const RankRecord* record = report.Find(snapshots[place].rank);
    return fmt::format("rank {} {} in phase '{}', {}", snapshots[place].rank, how, snapshots[place].phase,
                       record == nullptr ? "its ledger cannot be read" : DescribePlace(*record));
  }

  int EndOf(JobProcess& job) {
    const FlightReport report = ReadFlight(flight_);
    job.End(0, report.ranks);  // ranks that outlived their launcher
    const int status = job.status();
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    const bool whole = std::all_of(report.ranks.begin(), report.ranks.end(), [](const RankRecord& record) {
      return record.end == LedgerEnd::kFinished || record.end == LedgerEnd::kStopped;
    });
    if (((code == 0 || code == kExitStopped) && whole) || code == kExitBadInput || code == kExitUnsaved) {
      return code;
    }
    if (asked_to_stop_) {
      return code <= 0 ? kExitFailed : code;
    }
    std::string cause = code < 0
                            ? fmt::format("killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)))
                            : fmt::format("exit code {}{}", code, code == 0 ? " before the end of the run" : "");
    for (const RankRecord& record : report.ranks) {
      if (record.end == LedgerEnd::kFailed && record.rank == report.suspects.front()) {
        cause = fmt::format("rank {}: {}", record.rank, record.message);
      }
    }
    Say(fmt::format("the job died at step {}: {}", report.step(), cause));
    if (!report.ranks.empty()) {
      Say(report.headline);
    } else if (const std::string hint = LauncherHint(options_.command, geteuid() == 0); !hint.empty()) {
      Say(hint);
    }
    Bury({.step = report.step(), .cause = cause}, report);
    return -1;
  }

  // Moves what the dead job left to a folder of its own.
  void Bury(const Death& death, const FlightReport& report) {
    death_ = death;
    std::string grave;
    for (int number = 1; grave.empty() || fs::exists(grave); ++number) {
      grave = fmt::format("{}/death-{:03d}", flight_, number);
    }
    MakeDirectories(grave);
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(flight_, ignored)) {
      const std::string name = entry.path().filename().string();
      if (name.ends_with(".ledger") || name.starts_with("stacks-")) {
        fs::rename(entry.path(), grave + "/" + name, ignored);
      }
    }
    ReplaceFile(grave + "/report.txt", fmt::format("step {}\n{}\n{}\n", death.step, death.cause, report.headline));
    Say(fmt::format("records: trireme diagnose {}", grave));
  }

  void RemoveLedgers() const {
    for (const std::string& path : ListLedgers(flight_)) {
      std::error_code ignored;
      fs::remove(path, ignored);
    }
  }

  void Say(const std::string& text) const {
    if (options_.message) {
      options_.message(text);
    }
  }

  const SupervisorOptions& options_;
  std::string flight_;
  StopSignals signals_;
  WatchLimits limits_;
  Watchdog watchdog_;
  Death death_;
  std::string host_ = HostName();
  std::uint64_t beats_ = 0;
  std::size_t seen_ = 0;  // ledgers
  double silent_since_ = 0;
  std::optional<std::set<int>> waiting_;  // ranks that wait for others in the present silence
  double look_seconds_ = 0;
  struct Lateness {
    double since = 0;  // the next look is some seconds after it
    bool over = false;
  };
  Lateness late_;
  double next_straggler_check_ = 0;
  StragglerWatch stragglers_;
  bool asked_to_stop_ = false;
};

}  // namespace

int Supervise(const SupervisorOptions& options) { return Supervisor(options).Run(); }

}  // namespace trireme
