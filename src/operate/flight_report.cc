#include "operate/flight_report.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <map>
#include <set>

#include "base/error.h"

namespace trireme {
namespace {

std::int64_t LastStarted(const RankRecord& record, const std::string& group) {
  for (const LedgerGroup& each : record.groups) {
    if (each.name == group) {
      return each.started;
    }
  }
  return -1;
}

// Members of the groups that ranks wait in, each group looked at once however many of its members wait.
class Groups {
 public:
  explicit Groups(const FlightReport& report) : report_(report) {}

  // Ranks without which the call of `record` cannot end.
  std::vector<int> WaitsFor(const RankRecord& record) {
    const LedgerCall* call = record.InCall();
    if (call == nullptr || call->call.kind == CollectiveKind::kSend) {
      return {};
    }
    const Group& group = GroupOf(record, call->group);
    if (call->call.kind == CollectiveKind::kReceive) {
      const auto peer = static_cast<std::size_t>(call->call.peer);
      return call->call.peer >= 0 && peer < group.members.size() ? std::vector<int>{group.members[peer]}
                                                                 : std::vector<int>{};
    }
    std::vector<int> behind;
    for (const auto& [started, member] : group.by_start) {
      if (started >= call->sequence) {
        break;
      }
      behind.push_back(member);
    }
    std::sort(behind.begin(), behind.end());
    return behind;
  }

 private:
  struct Group {
    std::vector<int> members;
    std::vector<std::pair<std::int64_t, int>> by_start;  // number of the last call begun, rank; ascending
  };

  const Group& GroupOf(const RankRecord& record, const std::string& name) {
    const auto known = group_of_.find({name, record.rank});
    if (known != group_of_.end()) {
      return groups_[known->second];
    }
    Group group{.members = GroupMembers(record.layout, name, record.rank), .by_start = {}};
    for (const int member : group.members) {
      const RankRecord* other = report_.Find(member);
      group.by_start.emplace_back(other == nullptr ? -1 : LastStarted(*other, name), member);
      group_of_[{name, member}] = groups_.size();
    }
    group_of_[{name, record.rank}] = groups_.size();
    std::sort(group.by_start.begin(), group.by_start.end());
    groups_.push_back(std::move(group));
    return groups_.back();
  }

  const FlightReport& report_;
  std::deque<Group> groups_;
  std::map<std::pair<std::string, int>, std::size_t> group_of_;
};

// An Error that travelled begins with the rank that it came from.
bool IsEcho(const RankRecord& record) {
  return record.message.starts_with("rank ") && !record.message.starts_with(fmt::format("rank {}:", record.rank));
}

const RankRecord* FirstFailure(const FlightReport& report) {
  const RankRecord* first = nullptr;
  for (const RankRecord& record : report.ranks) {
    if (record.end == LedgerEnd::kFailed && (first == nullptr || (IsEcho(*first) && !IsEcho(record)) ||
                                             (IsEcho(*first) == IsEcho(record) && record.end_ns < first->end_ns))) {
      first = &record;
    }
  }
  return first;
}

// Follows each wait to its end: ranks that wait for no other. A ring has no end; then all ranks that wait are named.
void FindSuspects(FlightReport& report) {
  std::set<int> awaited;
  for (const std::vector<int>& ranks : report.waits_for) {
    awaited.insert(ranks.begin(), ranks.end());
  }
  std::set<int> waiting;
  for (std::size_t i = 0; i < report.ranks.size(); ++i) {
    if (!report.waits_for[i].empty()) {
      waiting.insert(report.ranks[i].rank);
    }
  }
  std::set_difference(awaited.begin(), awaited.end(), waiting.begin(), waiting.end(),
                      std::back_inserter(report.suspects));
  if (report.suspects.empty() && !awaited.empty()) {
    report.deadlock = true;
    report.suspects.assign(awaited.begin(), awaited.end());
  }
}

std::string SuspectSentence(const FlightReport& report) {
  const int suspect = report.suspects.front();
  std::vector<int> waiting;
  for (std::size_t i = 0; i < report.ranks.size(); ++i) {
    if (!report.waits_for[i].empty() && report.ranks[i].rank != suspect) {
      waiting.push_back(report.ranks[i].rank);
    }
  }
  const RankRecord* record = report.Find(suspect);
  const std::string where = record == nullptr
                                ? "left no ledger"
                                : fmt::format("stopped first: in phase '{}' of step {}, {}, since {}", record->phase,
                                              record->step, DescribePlace(*record), ClockTime(record->heartbeat_ns));
  const std::string others =
      report.suspects.size() == 1
          ? ""
          : fmt::format(" (rank {} too)", JoinRanks({report.suspects.begin() + 1, report.suspects.end()}));
  return fmt::format("rank {} {}{}; rank {} {}", suspect, where, others, JoinRanks(waiting),
                     waiting.size() == 1 ? "waits" : "wait");
}

const LedgerCall* CallNumber(const RankRecord& record, const std::string& group, std::int64_t sequence) {
  const auto found = std::find_if(record.calls.begin(), record.calls.end(), [&](const LedgerCall& call) {
    return call.group == group && call.sequence == sequence;
  });
  return found == record.calls.end() ? nullptr : &*found;
}

// A collective that every member has enqueued and no device has ended: a difference between the calls, or the devices.
std::string StuckOnDevices(const FlightReport& report) {
  for (const RankRecord& record : report.ranks) {
    const LedgerCall* const call = record.InCall();
    if (record.end != LedgerEnd::kRunning || call == nullptr || call->enqueued_ns == 0) {
      continue;
    }
    for (const int member : GroupMembers(record.layout, call->group, record.rank)) {
      const RankRecord* const other = report.Find(member);
      const LedgerCall* const theirs = other == nullptr ? nullptr : CallNumber(*other, call->group, call->sequence);
      if (theirs != nullptr && !(theirs->call == call->call)) {
        return fmt::format(
            "rank {} called {}, but rank {} called {}, as number {} of group '{}': their devices cannot "
            "end it",
            record.rank, Describe(call->call), member, Describe(theirs->call), call->sequence, call->group);
      }
    }
    return fmt::format("rank {} is {}, which every member has enqueued, since {}", record.rank, DescribePlace(record),
                       ClockTime(call->enqueued_ns));
  }
  return "";
}

std::string Headline(const FlightReport& report) {
  if (report.ranks.empty()) {
    return "no ledger can be read";
  }
  if (const RankRecord* failed = FirstFailure(report)) {
    return fmt::format("rank {} failed first, in phase '{}' of step {} at {}: {}", failed->rank, failed->phase,
                       failed->step, ClockTime(failed->end_ns), failed->message);
  }
  const auto ended = [](LedgerEnd end) { return [end](const RankRecord& record) { return record.end == end; }; };
  if (std::all_of(report.ranks.begin(), report.ranks.end(), ended(LedgerEnd::kFinished))) {
    return fmt::format("all {} ranks finished, after step {}", report.ranks.size(), report.step());
  }
  if (std::all_of(report.ranks.begin(), report.ranks.end(), ended(LedgerEnd::kStopped))) {
    return fmt::format("all {} ranks stopped on request, after step {}", report.ranks.size(), report.step());
  }
  if (report.deadlock) {
    return fmt::format("ranks {} wait for each other: none of them can go on", JoinRanks(report.suspects));
  }
  if (!report.suspects.empty()) {
    return SuspectSentence(report);
  }
  if (std::string stuck = StuckOnDevices(report); !stuck.empty()) {
    return stuck;
  }
  const auto last = std::max_element(report.ranks.begin(), report.ranks.end(),
                                     [](const auto& a, const auto& b) { return a.heartbeat_ns < b.heartbeat_ns; });
  return fmt::format("no rank waits for another: step {}, last sign of life from rank {} in phase '{}' at {}",
                     report.step(), last->rank, last->phase, ClockTime(last->heartbeat_ns));
}

}  // namespace

const RankRecord* FlightReport::Find(int rank) const {
  const auto found =
      std::lower_bound(ranks.begin(), ranks.end(), rank, [](const RankRecord& a, int b) { return a.rank < b; });
  return found == ranks.end() || found->rank != rank ? nullptr : &*found;
}

std::int64_t FlightReport::step() const {
  std::int64_t most = 0;
  for (const RankRecord& record : ranks) {
    most = std::max(most, record.step);
  }
  return most;
}

namespace {

// The members of "context_heads2" or "context_ring2": groups of two ranks along the context axis that follow each
// other, or the ranks that stand at one place of these groups.
std::vector<int> ContextMembers(const std::vector<int>& axis, const std::string& group, int rank) {
  const std::string_view heads = "context_heads";
  const std::string_view ring = "context_ring";
  const bool by_heads = group.starts_with(heads);
  const int head_ranks = std::atoi(group.c_str() + (by_heads ? heads : ring).size());
  const auto own = static_cast<int>(std::find(axis.begin(), axis.end(), rank) - axis.begin());
  std::vector<int> members;
  for (int place = 0; head_ranks > 0 && place < static_cast<int>(axis.size()); ++place) {
    if (by_heads ? place / head_ranks == own / head_ranks : place % head_ranks == own % head_ranks) {
      members.push_back(axis[static_cast<std::size_t>(place)]);
    }
  }
  return members;
}

}  // namespace

std::vector<int> GroupMembers(const ParallelLayout& layout, const std::string& group, int rank) {
  const ProcessGrid grid(layout);
  if (group.starts_with("context_heads") || group.starts_with("context_ring")) {
    return ContextMembers(grid.RanksAlong(Axis::kContext, rank), group, rank);
  }
  if (group == "tensor") {
    return grid.RanksAlong(Axis::kTensor, rank);
  }
  if (group == "context") {
    return grid.RanksAlong(Axis::kContext, rank);
  }
  if (group == "data") {
    return grid.Replicas(rank);
  }
  std::vector<int> members;
  if (group == "pipeline" || group == "tied") {
    members = grid.RanksAlong(Axis::kPipeline, rank);
    const bool at_an_end = rank == members.front() || rank == members.back();
    if (group == "tied" && at_an_end && members.size() > 1) {
      return {members.front(), members.back()};
    }
    return group == "tied" ? std::vector<int>{rank} : members;
  }
  if (group == "world") {
    for (int member = 0; member < layout.ranks(); ++member) {
      members.push_back(member);
    }
  }
  return members;
}

std::string DescribePlace(const RankRecord& record) {
  const LedgerCall* call = record.InCall();
  if (call == nullptr) {
    return "in no collective";
  }
  const std::string device = call->enqueued_ns == 0 ? ""
                             : call->running_ns != 0
                                 ? fmt::format(", running on stream {} of its device", call->stream)
                                 : fmt::format(", waiting on stream {} of its device", call->stream);
  return fmt::format("in {}, number {} of group '{}'{}", Describe(call->call), call->sequence, call->group, device);
}

std::string JoinRanks(const std::vector<int>& ranks) {
  constexpr std::size_t kMost = 16;
  std::string text;
  for (std::size_t i = 0; i < std::min(ranks.size(), kMost); ++i) {
    const bool last = i + 1 == ranks.size();
    text += fmt::format("{}{}", i == 0 ? "" : last ? " and " : ", ", ranks[i]);
  }
  return ranks.size() > kMost ? fmt::format("{} and {} more", text, ranks.size() - kMost) : text;
}

std::string RankRanges(const std::vector<int>& ranks) {
  constexpr int kMostStretches = 6;
  std::string text;
  std::size_t i = 0;
  for (int stretch = 0; i < ranks.size() && stretch < kMostStretches; ++stretch) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) {
      ++last;
    }
    text += fmt::format("{}{}", text.empty() ? "" : " ", ranks[i]);
    text += last > i ? fmt::format("-{}", ranks[last]) : "";
    i = last + 1;
  }
  return i < ranks.size() ? fmt::format("{} and {} more", text, ranks.size() - i) : text;
}

std::string ClockTime(std::int64_t nanoseconds) {
  const std::time_t seconds = nanoseconds / 1'000'000'000;
  std::tm local{};
  localtime_r(&seconds, &local);
  return fmt::format("{:02d}:{:02d}:{:02d}.{:03d}", local.tm_hour, local.tm_min, local.tm_sec,
                     nanoseconds / 1'000'000 % 1000);
}

FlightReport MakeReport(std::vector<RankRecord> ranks) {
  FlightReport report;
  report.ranks = std::move(ranks);
  std::sort(report.ranks.begin(), report.ranks.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  // Files of a run with another layout are not this run's.
  if (!report.ranks.empty()) {
    const ParallelLayout layout = report.ranks.front().layout;
    std::erase_if(report.ranks, [&](const RankRecord& record) {
      const bool other = record.world() != layout.ranks();
      if (other) {
        report.unreadable.push_back(fmt::format("the ledger of rank {} is of another run", record.rank));
      }
      return other;
    });
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      if (report.Find(rank) == nullptr) {
        report.missing.push_back(rank);
      }
    }
  }
  Groups groups(report);
  for (const RankRecord& record : report.ranks) {
    report.waits_for.push_back(record.end == LedgerEnd::kRunning ? groups.WaitsFor(record) : std::vector<int>{});
  }
  FindSuspects(report);
  if (const RankRecord* failed = FirstFailure(report)) {
    report.suspects = {failed->rank};
  }
  report.headline = Headline(report);
  return report;
}

FlightReport ReadFlight(const std::string& folder) {
  constexpr std::size_t kMany = 256;
  std::vector<RankRecord> ranks;
  std::vector<std::string> unreadable;
  const std::vector<std::string> paths = ListLedgers(folder);
  const LedgerPart part = paths.size() > kMany ? LedgerPart::kRecent : LedgerPart::kAll;
  for (const std::string& path : paths) {
    try {
      ranks.push_back(ReadLedger(path, part));
    } catch (const Error& error) {
      unreadable.push_back(error.what());
    }
  }
  FlightReport report = MakeReport(std::move(ranks));
  report.unreadable.insert(report.unreadable.end(), unreadable.begin(), unreadable.end());
  return report;
}

}  // namespace trireme
