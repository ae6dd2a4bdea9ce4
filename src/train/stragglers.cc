#include "train/stragglers.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/error.h"
#include "train/flight_story.h"

namespace trireme {
namespace {

constexpr int kSpans = 20;
constexpr int kMostSpans = 17;
constexpr std::size_t kLeastMeetings = 2 * kSpans;

// The group whose members do equal work.
std::string PeersOf(const ParallelLayout& layout) { return layout.tensor > 1 ? "tensor" : "data"; }

bool WaitsForAll(CollectiveKind kind) { return kind != CollectiveKind::kSend && kind != CollectiveKind::kReceive; }

// A collective that every member's ledger still holds.
struct Meeting {
  std::int64_t time = 0;  // of the last to arrive
  int last = 0;
  double delay = 0;  // seconds of the last behind the median
};

struct Arrival {
  std::int64_t time;
  int rank;
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
        arrivals[{members.front(), call.sequence}].push_back({call.started_ns, record.rank, members.size()});
      }
    }
  }
  std::map<int, std::vector<Meeting>> meetings;
  for (auto& [key, each] : arrivals) {
    if (each.size() == each.front().members) {
      std::sort(each.begin(), each.end(), [](const Arrival& a, const Arrival& b) { return a.time < b.time; });
      const std::int64_t median = each[(each.size() - 1) / 2].time;
      meetings[key.first].push_back({.time = each.back().time,
                                     .last = each.back().rank,
                                     .delay = static_cast<double>(each.back().time - median) * 1e-9});
    }
  }
  return meetings;
}

// Of one group.
void AddStragglers(const std::vector<Meeting>& meetings, double least_share, std::vector<Straggler>& found) {
  const auto [first, last] = std::minmax_element(meetings.begin(), meetings.end(),
                                                 [](const Meeting& a, const Meeting& b) { return a.time < b.time; });
  const double seconds = static_cast<double>(last->time - first->time) * 1e-9;
  if (meetings.size() < kLeastMeetings || seconds <= 0) {
    return;
  }
  std::array<std::map<int, double>, kSpans> by_span;
  std::map<int, double> delays;
  for (const Meeting& meeting : meetings) {
    const double at = static_cast<double>(meeting.time - first->time) * 1e-9 / seconds;
    by_span[static_cast<std::size_t>(std::min(kSpans - 1.0, at * kSpans))][meeting.last] += meeting.delay;
    delays[meeting.last] += meeting.delay;
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
                       .text = fmt::format("rank {} is the last of its group in {} of {} spans of time and costs it "
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
    AddStragglers(meetings, least_share, found);
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.share > b.share; });
  return found;
}

}  // namespace trireme
