#include "operate/trace_recorder.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

#include "base/durable_file.h"
#include "base/error.h"
#include "base/text_file.h"

namespace trireme {
namespace {

std::string PathOf(const std::string& folder, int rank) {
  return fmt::format("{}/trace/rank-{:05d}.txt", folder, rank);
}

}  // namespace

TraceSteps ParseTraceSteps(const std::string& text) {
  TraceSteps steps;
  const char* const end = text.data() + text.size();
  std::from_chars_result read = std::from_chars(text.data(), end, steps.first);
  steps.last = steps.first;
  if (read.ec == std::errc() && read.ptr != end && *read.ptr == '-') {
    read = std::from_chars(read.ptr + 1, end, steps.last);
  }
  Require(read.ec == std::errc() && read.ptr == end && steps.first >= 1 && steps.last >= steps.first &&
              steps.last - steps.first < 1000,
          "--trace '{}' must be a step or a stretch of at most 1000, such as 12 or 12-15", text);
  return steps;
}

void TraceRecorder::PhaseBegan(std::int64_t step, std::string_view name, int micro_batch, std::int64_t now) {
  if (open_) {
    trace_.phases.back().end_ns = now;
  }
  // What the loop does between steps counts to the step that is done. Of that, a trace shows what takes long.
  static constexpr std::string_view kBetween[] = {"check", "load", "end"};
  open_ = steps_.Holds(step) && std::find(std::begin(kBetween), std::end(kBetween), name) == std::end(kBetween);
  if (open_) {
    trace_.phases.push_back(
        {.step = step, .name = std::string(name), .micro_batch = micro_batch, .start_ns = now, .end_ns = now});
  }
}

void TraceRecorder::CallStarted(const std::string& group, const CollectiveCall& call, std::int64_t now) {
  calling_ = open_;
  if (calling_) {
    trace_.calls.push_back({.group = group,
                            .kind = call.kind,
                            .count = call.count,
                            .peer = call.peer,
                            .tag = call.tag,
                            .start_ns = now,
                            .end_ns = now});
  }
}

void TraceRecorder::CallEnded(std::int64_t now) {
  if (calling_) {
    trace_.calls.back().end_ns = now;
    calling_ = false;
  }
}

std::vector<int> TracedRanks(const ParallelLayout& layout, int slowest) {
  std::set<int> traced;
  if (layout.ranks() <= kTracedRanks) {
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      traced.insert(rank);
    }
    return {traced.begin(), traced.end()};
  }
  traced = {0, layout.ranks() - 1, slowest};
  const std::vector<int> stages = ProcessGrid(layout).RanksAlong(Axis::kPipeline, 0);
  const std::size_t room = kTracedRanks - traced.size();
  const std::size_t shown = std::min(room, stages.size());
  for (std::size_t i = 0; i < shown; ++i) {
    traced.insert(stages[i * stages.size() / shown]);
  }
  return {traced.begin(), traced.end()};
}

std::int64_t TimeInCalls(const RankTrace& trace) {
  std::int64_t time = 0;
  for (const TracedCall& call : trace.calls) {
    time += call.end_ns - call.start_ns;
  }
  return time;
}

void WriteRankTrace(const std::string& folder, int rank, const RankTrace& trace) {
  std::string text;
  for (const TracedPhase& phase : trace.phases) {
    text +=
        fmt::format("phase {} {} {} {} {}\n", phase.step, phase.micro_batch, phase.start_ns, phase.end_ns, phase.name);
  }
  for (const TracedCall& call : trace.calls) {
    text += fmt::format("call {} {} {} {} {} {} {}\n", static_cast<int>(call.kind), call.count, call.peer, call.tag,
                        call.start_ns, call.end_ns, call.group);
  }
  RefuseLink(folder + "/trace");
  MakeDirectories(folder + "/trace");
  ReplaceFile(PathOf(folder, rank), text);
}

RankTrace ReadRankTrace(const std::string& folder, int rank) {
  LineReader file(PathOf(folder, rank));
  RankTrace trace;
  for (std::string line; file.Next(line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "phase") {
      TracedPhase phase;
      if (words >> phase.step >> phase.micro_batch >> phase.start_ns >> phase.end_ns >> phase.name) {
        trace.phases.push_back(phase);
      }
    } else if (int number = 0; kind == "call" && words >> number && number >= 0 && number < kCollectiveKinds) {
      TracedCall call{.kind = static_cast<CollectiveKind>(number)};
      if (words >> call.count >> call.peer >> call.tag >> call.start_ns >> call.end_ns >> call.group) {
        trace.calls.push_back(call);
      }
    }
  }
  return trace;
}

}  // namespace trireme
