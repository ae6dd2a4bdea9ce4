#include "operate/watchdog.h"

#include <algorithm>
#include <set>

namespace trireme {
namespace {

// Steps that must have been seen before times of phases count as known.
constexpr std::int64_t kStepsToLearn = 3;
// A launcher that sees a rank die ends the job itself; this long it may take.
constexpr double kLauncherSeconds = 5;
// A save or a validation that neither reads nor writes may copy its state for so many floors when no other was seen.
constexpr double kFirstOfItsKind = 6;
// Shares of one core above which a process is at work, and a thread spins.
constexpr double kWorking = 0.02;

// Phases whose length depends on disks and data, not on the step.
bool TakesItsTime(const std::string& phase) {
  return phase == "start" || phase == "load" || phase == "save" || phase == "end" || phase == "validate";
}

// A rank of which no process is known counts as one.
int ProcessOf(const RankSnapshot& snapshot) { return snapshot.process != 0 ? snapshot.process : -1 - snapshot.rank; }

}  // namespace

ProcessActivity Watchdog::KindOf(const Rank& rank, const RankSnapshot& snapshot, double now) const {
  if (snapshot.state == 'X' || snapshot.state == 'Z') {
    return ProcessActivity::kDead;
  }
  if (snapshot.state == 'T') {
    return ProcessActivity::kStopped;
  }
  const bool moves = rank.moved > rank.since && now - rank.moved <= limits_.floor;
  if (moves || snapshot.process_on_disk || snapshot.state == 0 || snapshot.state == 't') {
    return ProcessActivity::kMoving;
  }
  const double cpu = snapshot.process_cpu_seconds - rank.at_beat.process_cpu_seconds;
  return cpu > kWorking * (now - rank.since) ? ProcessActivity::kBusy : ProcessActivity::kIdle;
}

double Watchdog::Limit(ProcessActivity kind, const RankSnapshot& snapshot) const {
  const std::string& phase = snapshot.phase;
  if (kind <= ProcessActivity::kStopped) {
    return kind == ProcessActivity::kDead ? std::max(limits_.floor, kLauncherSeconds) : limits_.floor;
  }
  const auto seen = longest_.find(phase);
  const double learned = std::max(limits_.floor, limits_.factor * (seen == longest_.end() ? 0 : seen->second));
  // No part of the work before the first step is told: drawing weights, meeting other ranks.
  const bool told = snapshot.steady && phase != "start" && phase != "end";
  if (kind == ProcessActivity::kBusy && told) {
    return std::max(learned, limits_.floor * (seen == longest_.end() || steps_ < kStepsToLearn ? limits_.patience : 1));
  }
  const bool known = steps_ >= kStepsToLearn && (!TakesItsTime(phase) || kind == ProcessActivity::kBusy);
  if (known && TakesItsTime(phase) && seen == longest_.end()) {
    return limits_.floor * kFirstOfItsKind;
  }
  return kind == ProcessActivity::kIdle || known ? learned : std::max(learned, limits_.unlearned);
}

void Watchdog::Learn(double now, const std::vector<RankSnapshot>& snapshots) {
  std::set<int> alive;
  for (const RankSnapshot& snapshot : snapshots) {
    const auto known = ranks_.find(snapshot.rank);
    if (known == ranks_.end() || known->second.beats != snapshot.beats) {
      alive.insert(ProcessOf(snapshot));
    }
  }
  for (const RankSnapshot& snapshot : snapshots) {
    const auto known = ranks_.find(snapshot.rank);
    const auto life = process_life_.find(ProcessOf(snapshot));
    if (known != ranks_.end() && life != process_life_.end() && alive.count(ProcessOf(snapshot)) > 0) {
      double& longest = longest_[known->second.phase];
      longest = std::max(longest, now - life->second);
    }
  }
  for (const int process : alive) {
    process_life_[process] = now;
  }
}

std::optional<Alarm> Watchdog::Check(double now, const std::vector<RankSnapshot>& snapshots) {
  Learn(now, snapshots);
  bool life = snapshots.empty() || last_life_ < 0;
  for (const RankSnapshot& snapshot : snapshots) {
    const auto [place, is_new] = ranks_.try_emplace(snapshot.rank);
    Rank& rank = place->second;
    if (is_new || rank.beats != snapshot.beats) {
      rank = {.beats = snapshot.beats,
              .phase = snapshot.phase,
              .since = now,
              .at_beat = snapshot,
              .bytes_moved = snapshot.bytes_moved,
              .moved = now};
      life = true;
    } else if (rank.bytes_moved != snapshot.bytes_moved) {
      rank.bytes_moved = snapshot.bytes_moved;
      rank.moved = now;
    }
    steps_ = std::max(steps_, snapshot.steps_before);
  }
  if (life) {
    last_life_ = now;
    return std::nullopt;
  }
  // The whole run stands still. It may go on as long as the rank with the most patience due; ranks that wait for others
  // have no say unless all wait.
  const bool all_wait =
      std::all_of(snapshots.begin(), snapshots.end(), [](const RankSnapshot& snapshot) { return snapshot.waiting; });
  Alarm alarm{.kind = ProcessActivity::kStopped, .seconds = now - last_life_, .limit = 0};
  ProcessActivity strongest = ProcessActivity::kMoving;
  for (const RankSnapshot& snapshot : snapshots) {
    const ProcessActivity kind = KindOf(ranks_[snapshot.rank], snapshot, now);
    const Rank& rank = ranks_[snapshot.rank];
    alarm.by_rank.push_back(kind);
    alarm.cpu_share.push_back((snapshot.cpu_seconds - rank.at_beat.cpu_seconds) / std::max(now - rank.since, 1e-9));
    strongest = std::min(strongest, kind);
    if (!snapshot.waiting || all_wait) {
      alarm.kind = std::max(alarm.kind, kind);
      alarm.limit = std::max(alarm.limit, Limit(all_wait ? std::min(kind, ProcessActivity::kIdle) : kind, snapshot));
    }
  }
  // A dead or stopped rank explains why others wait, however busily they do it.
  if (strongest <= ProcessActivity::kStopped) {
    alarm.kind = strongest;
    alarm.limit = Limit(strongest, {});
  }
  return alarm.seconds > alarm.limit ? std::optional(alarm) : std::nullopt;
}

}  // namespace trireme
