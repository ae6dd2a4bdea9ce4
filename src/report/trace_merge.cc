#include "report/trace_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "base/error.h"
#include "operate/trace_recorder.h"
#include "planner/queries/timeline.h"
#include "planner/queries/trace_file.h"
#include "topology/layout.h"

namespace trireme {
namespace {

// A message, by what both its ends know: sender, receiver, tag.
using MessageKey = std::tuple<int, int, int>;
struct MessageEnd {
  int track = 0;
  double at = 0;
};

class Merger {
 public:
  Merger(const std::string& folder, const TraceInput& input) : input_(input), grid_(input.config.layout) {
    for (int rank = 0; rank < input.config.layout.ranks(); ++rank) {
      ranks_.push_back(ReadRankTrace(folder, rank));
      for (const TracedPhase& phase : ranks_.back().phases) {
        start_ns_ = std::min(start_ns_, phase.start_ns);
        first_ = std::min(first_, phase.step);
        last_ = std::max(last_, phase.step);
      }
    }
    Require(last_ > 0, "'{}' holds no traced step", folder);
  }

  std::string Merge() {
    process_ = trace_.AddProcess(first_ == last_ ? fmt::format("measured, step {}", first_)
                                                 : fmt::format("measured, steps {} to {}", first_, last_));
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      AddRank(static_cast<int>(rank));
    }
    AddFlows();
    AddMemory();
    if (input_.predicted) {
      const RunConfig& config = input_.config;
      AddTimeline(config.layout, *input_.predicted, MicroBatches(config.layout, config.batch.global), trace_);
    }
    return trace_.ToJson();
  }

 private:
  double SinceStart(std::int64_t ns) const { return static_cast<double>(ns - start_ns_) * 1e-9; }

  void AddRank(int rank) {
    const RankTrace& traced = ranks_[static_cast<std::size_t>(rank)];
    if (traced.phases.empty()) {
      return;  // one of many ranks, not traced
    }
    const Coordinate coordinate = grid_.CoordinateOf(rank);
    const int compute = trace_.AddTrack(process_, fmt::format("rank {}, stage {}", rank, coordinate.pipeline));
    int in_flight = 0;
    for (const TracedPhase& phase : traced.phases) {
      trace_.AddSlice(
          {.track = compute,
           .name = phase.micro_batch >= 0 ? fmt::format("{} {}", phase.name, phase.micro_batch) : phase.name,
           .kind = phase.name,
           .start = SinceStart(phase.start_ns),
           .seconds = SinceStart(phase.end_ns) - SinceStart(phase.start_ns),
           .micro_batch = phase.micro_batch});
      const int change = phase.micro_batch < 0 ? 0 : phase.name == "forward" ? 1 : phase.name == "backward" ? -1 : 0;
      if (change != 0) {
        in_flight += change;
        trace_.AddCounter(process_, fmt::format("micro batches in flight, rank {}", rank),
                          SinceStart(change > 0 ? phase.start_ns : phase.end_ns), {{"count", in_flight}});
      }
    }
    if (traced.calls.empty()) {
      return;
    }
    const int communication = trace_.AddTrack(process_, fmt::format("rank {} communication", rank));
    for (const TracedCall& call : traced.calls) {
      AddCall(rank, communication, call);
    }
  }

  void AddCall(int rank, int track, const TracedCall& call) {
    const double start = SinceStart(call.start_ns);
    const double end = SinceStart(call.end_ns);
    trace_.AddSlice({.track = track,
                     .name = fmt::format("{} {} of {}", call.group, Name(call.kind), call.count),
                     .kind = std::string(Name(call.kind)),
                     .start = start,
                     .seconds = end - start});
    const bool sends = call.kind == CollectiveKind::kSend;
    if ((!sends && call.kind != CollectiveKind::kReceive) || call.group != "pipeline") {
      return;
    }
    const std::vector<int> members = grid_.RanksAlong(Axis::kPipeline, rank);
    if (call.peer >= 0 && call.peer < static_cast<int>(members.size())) {
      const int other = members[static_cast<std::size_t>(call.peer)];
      const MessageKey key = sends ? MessageKey{rank, other, call.tag} : MessageKey{other, rank, call.tag};
      (sends ? sent_ : received_)[key].push_back({track, sends ? start : end});
    }
  }

  // Messages of one key keep their order.
  void AddFlows() {
    for (const auto& [key, sends] : sent_) {
      const auto found = received_.find(key);
      const std::size_t count = found == received_.end() ? 0 : std::min(sends.size(), found->second.size());
      for (std::size_t i = 0; i < count; ++i) {
        trace_.AddFlow(sends[i].track, sends[i].at, found->second[i].track, found->second[i].at);
      }
    }
  }

  void AddMemory() {
    for (std::size_t rank = 0; rank < std::min(input_.memory.size(), ranks_.size()); ++rank) {
      if (ranks_[rank].phases.empty()) {
        continue;
      }
      std::map<std::string, double> kinds;
      for (int kind = 0; kind < kMemoryKinds; ++kind) {
        const auto memory = static_cast<MemoryKind>(kind);
        kinds[std::string(Name(memory))] = static_cast<double>(input_.memory[rank][memory]);
      }
      trace_.AddCounter(process_, fmt::format("memory, rank {}", rank), 0, kinds);
    }
  }

  const TraceInput& input_;
  ProcessGrid grid_;
  std::vector<RankTrace> ranks_;
  std::int64_t start_ns_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t first_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t last_ = 0;
  TraceFile trace_;
  int process_ = 0;
  std::map<MessageKey, std::vector<MessageEnd>> sent_;
  std::map<MessageKey, std::vector<MessageEnd>> received_;
};

}  // namespace

std::string MergedTrace(const std::string& folder, const TraceInput& input) { return Merger(folder, input).Merge(); }

}  // namespace trireme
