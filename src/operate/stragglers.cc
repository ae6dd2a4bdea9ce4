#include "operate/stragglers.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <utility>

#include "base/error.h"
#include "operate/flight_report.h"

namespace trireme {
namespace {

constexpr int kSpans = 20;
constexpr int kMostSpans = 17;
constexpr std::size_t kLeastMeetings = 2 * kSpans;
// What a look is about: the longer of these.
constexpr std::int64_t kWindowSteps = 20;
constexpr double kWindowSeconds = 2;
// For how long a rank must be found at every look: the longer of these. Other work of a machine has been seen to slow
// one rank down for five seconds.
constexpr std::int64_t kStretchSteps = 20;
constexpr double kStretchSeconds = 6;
// Least share of its group's time that a straggler costs.
constexpr double kLeastCost = 0.1;

// The group whose members do equal work.
std::string PeersOf(const ParallelLayout& layout) {
  return layout.tensor > 1 ? "tensor" : layout.context > 1 ? "context" : "data";
}

bool WaitsForAll(CollectiveKind kind) { return !IsMessage(kind); }

// A collective that every member's ledger still holds.
struct Meeting {
  std::int64_t time = 0;  // of the last to arrive
  std::int64_t step = 0;
  int last = 0;
  double delay = 0;  // seconds of the last behind the median
};

struct Arrival {
  std::int64_t time;
  int rank;
  std::int64_t step;
  std::size_t members;
};

// By the group's first member, in order of their numbers.
std::map<int, std::vector<Meeting>> FindMeetings(const std::vector<RankRecord>& ranks) {
  std::map<std::pair<int, std::int64_t>, std::vector<Arrival>> arrivals;
  for (const RankRecord& record : ranks) {
    const std::string group = PeersOf(record.layout);
    const std::vector<int> members = GroupMembers(record.layout, group, record.rank);
    for (const LedgerCall& call : record.calls) {
      if (WaitsForAll(call.call.kind) && call.group == group && members.size() > 1) {
        arrivals[{members.front(), call.sequence}].push_back({call.started_ns, record.rank, call.step, members.size()});
      }
    }
  }
  std::map<int, std::vector<Meeting>> meetings;
  for (auto& [key, each] : arrivals) {
    if (each.size() == each.front().members) {
      std::sort(each.begin(), each.end(), [](const Arrival& a, const Arrival& b) { return a.time < b.time; });
      const std::int64_t median = each[(each.size() - 1) / 2].time;
      meetings[key.first].push_back({.time = each.back().time,
                                     .step = each.back().step,
                                     .last = each.back().rank,
                                     .delay = static_cast<double>(each.back().time - median) * 1e-9});
    }
  }
  return meetings;
}

// The newest of a group's meetings, as many as a look is about.
std::span<const Meeting> InWindow(std::span<const Meeting> meetings) {
  const Meeting& last = meetings.back();
  std::size_t count = 1;
  while (count < meetings.size()) {
    const Meeting& next = meetings[meetings.size() - count - 1];
    const bool within = next.step > last.step - kWindowSteps ||
                        static_cast<double>(last.time - next.time) * 1e-9 < kWindowSeconds || count < kLeastMeetings;
    if (!within) {
      break;
    }
    ++count;
  }
  return meetings.last(count);
}

// Adds the stragglers of one group.
void AddStragglers(std::span<const Meeting> meetings, double least_share, std::vector<Straggler>& found) {
  const auto [first, last] = std::minmax_element(meetings.begin(), meetings.end(),
                                                 [](const Meeting& a, const Meeting& b) { return a.time < b.time; });
  const double seconds = static_cast<double>(last->time - first->time) * 1e-9;
  if (meetings.size() < kLeastMeetings || seconds <= 0) {
    return;
  }
  std::array<std::map<int, double>, kSpans> by_span;
  std::map<int, double> delays;
  // Spans have equally many meetings, so that one long delay is a matter of one span.
  for (std::size_t i = 0; i < meetings.size(); ++i) {
    by_span[i * kSpans / meetings.size()][meetings[i].last] += meetings[i].delay;
    delays[meetings[i].last] += meetings[i].delay;
  }
  for (const auto& [rank, delay] : delays) {
    const auto slowest =
        std::count_if(by_span.begin(), by_span.end(), [rank = rank](const std::map<int, double>& span) {
          const auto most = std::max_element(span.begin(), span.end(),
                                             [](const auto& a, const auto& b) { return a.second < b.second; });
          return most != span.end() && most->first == rank;
        });
    const double share = delay / seconds;
    if (slowest >= kMostSpans && share >= least_share) {
      found.push_back({.rank = rank,
                       .share = share,
                       .text = fmt::format("rank {} is the last of its group in {} of {} spans and costs it "
                                           "{:.0f} % ({:.1f} ms a meeting)",
                                           rank, slowest, kSpans, share * 100,
                                           delay * 1e3 / static_cast<double>(meetings.size()))});
    }
  }
}

}  // namespace

std::vector<Straggler> FindStragglers(const std::vector<RankRecord>& ranks, double least_share) {
  std::vector<Straggler> found;
  for (const auto& [group, meetings] : FindMeetings(ranks)) {
    AddStragglers(InWindow(meetings), least_share, found);
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.share > b.share; });
  return found;
}

std::vector<Straggler> StragglerWatch::Check(double now, std::int64_t step, const std::vector<RankRecord>& ranks) {
  std::map<int, Suspicion> suspected;
  std::vector<Straggler> to_name;
  for (const Straggler& each : FindStragglers(ranks, kLeastCost)) {
    const auto before = suspected_.find(each.rank);
    const Suspicion suspicion = before == suspected_.end() ? Suspicion{.since = now, .step = step} : before->second;
    suspected[each.rank] = suspicion;
    if (step - suspicion.step >= kStretchSteps && now - suspicion.since >= kStretchSeconds &&
        named_.insert(each.rank).second) {
      to_name.push_back(each);
    }
  }
  suspected_ = std::move(suspected);
  return to_name;
}

}  // namespace trireme
