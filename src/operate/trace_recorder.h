// What a rank's thread does in some steps: the parts of the schedule, collectives, messages. Every rank writes a file
// of its own, FOLDER/trace/rank-00003.txt; report/trace_merge.h makes one trace of them. On a GPU these are the times
// of the thread that starts the work, not of the device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/ledger.h"
#include "topology/layout.h"

namespace trireme {

// A part of the step, in nanoseconds since 1970.
struct TracedPhase {
  std::int64_t step = 0;
  std::string name;
  int micro_batch = -1;  // -1: none
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

struct TracedCall {
  std::string group;
  CollectiveKind kind = CollectiveKind::kBarrier;
  std::int64_t count = 0;  // elements
  int peer = -1;           // in the group
  int tag = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

struct RankTrace {
  std::vector<TracedPhase> phases;
  std::vector<TracedCall> calls;
};

// Steps to trace, both included; first 0: none.
struct TraceSteps {
  std::int64_t first = 0;
  std::int64_t last = 0;
  bool every_rank = false;  // also of a run of many ranks
  bool Holds(std::int64_t step) const { return first > 0 && step >= first && step <= last; }
};
// "12" or "12-15"; an Error for anything else.
TraceSteps ParseTraceSteps(const std::string& text);

class TraceRecorder : public LedgerListener {
 public:
  explicit TraceRecorder(const TraceSteps& steps) : steps_(steps) {}

  void PhaseBegan(std::int64_t step, std::string_view name, int micro_batch, std::int64_t now) override;
  void CallStarted(const std::string& group, const CollectiveCall& call, std::int64_t now) override;
  void CallEnded(std::int64_t now) override;

  const RankTrace& trace() const { return trace_; }

 private:
  TraceSteps steps_;
  RankTrace trace_;
  bool open_ = false;  // the last phase goes on
  bool calling_ = false;
};

// Ranks whose traces are written: all of up to kTracedRanks, of more the first, the last, the one that waited least for
// others (the slowest), and the first of each stage, of as many stages as there is room for. Ascending.
inline constexpr int kTracedRanks = 16;
std::vector<int> TracedRanks(const ParallelLayout& layout, int slowest);
// Nanoseconds that a rank spent in collectives and messages of its traced steps.
std::int64_t TimeInCalls(const RankTrace& trace);

// An Error when the file cannot be written.
void WriteRankTrace(const std::string& folder, int rank, const RankTrace& trace);
// What cannot be read is left out.
RankTrace ReadRankTrace(const std::string& folder, int rank);

}  // namespace trireme
