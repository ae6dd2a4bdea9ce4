#include "planner/queries/timeline.h"

#include <algorithm>

#include "base/error.h"
#include "schedule/schedule.h"

namespace trireme {
namespace {

// More actions than a viewer can show.
constexpr std::int64_t kMostActions = 200'000;

Schedule ScheduleOf(const ParallelLayout& layout, std::int64_t micro_batches) {
  Require(micro_batches * layout.virtual_stages() <= kMostActions,
          "a timeline of {} micro batches on {} virtual stages is too large; the most is {} passes", micro_batches,
          layout.virtual_stages(), kMostActions);
  return MakeSchedule(layout.schedule, layout.pipeline, layout.chunks, static_cast<int>(micro_batches));
}

char Mark(const Action& action) {
  const int kind = action.micro_batch % 26;
  if (action.kind == ActionKind::kForward) {
    return static_cast<char>('0' + action.micro_batch % 10);
  }
  return static_cast<char>((action.kind == ActionKind::kBackwardWeight ? 'A' : 'a') + kind);
}

const char* NameOf(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return "forward";
    case ActionKind::kBackward:
      return "backward";
    case ActionKind::kBackwardInput:
      return "backward input";
    case ActionKind::kBackwardWeight:
    case ActionKind::kSendActivation:
    case ActionKind::kReceiveActivation:
    case ActionKind::kSendGradient:
    case ActionKind::kReceiveGradient:
      return "backward weight";
  }
  return "";
}

struct After {
  const char* name;
  double StepTerms::*member;
};
// What follows the pipeline, in order.
constexpr After kAfter[] = {{"data collectives", &StepTerms::data},
                            {"gradient compression", &StepTerms::compress},
                            {"optimizer", &StepTerms::optimizer},
                            {"offload", &StepTerms::offload},
                            {"fixed cost", &StepTerms::fixed}};

// What the schedule's play leaves out of the step, such as cores that stages take turns on, spread over all of it: the
// timeline ends when the step is predicted to.
double StretchOf(const Timeline& timeline, const StepEstimate& estimate) {
  double end = timeline.seconds;
  for (const After& after : kAfter) {
    end += estimate.terms.*after.member;
  }
  return end > 0 && estimate.seconds > 0 ? estimate.seconds / end : 1;
}

}  // namespace

std::string TimelineText(const ParallelLayout& layout, const StepEstimate& estimate, std::int64_t micro_batches,
                         int columns) {
  const Timeline timeline = Play(ScheduleOf(layout, micro_batches), estimate.costs);
  const double scale = static_cast<double>(std::clamp(columns, 20, 1000)) / timeline.seconds;
  std::string text = fmt::format("pipeline of {:.3f} s; 0-9 forward, a-z backward, A-Z weight part, . idle\n",
                                 StretchOf(timeline, estimate) * timeline.seconds);
  for (std::size_t stage = 0; stage < timeline.stages.size(); ++stage) {
    std::string row(static_cast<std::size_t>(std::clamp(columns, 20, 1000)), '.');
    for (const PlayedAction& played : timeline.stages[stage]) {
      const auto first = static_cast<std::size_t>(played.start * scale);
      const auto last = std::min(static_cast<std::size_t>(played.end * scale), row.size());
      std::fill(row.begin() + static_cast<std::ptrdiff_t>(std::min(first, row.size())),
                row.begin() + static_cast<std::ptrdiff_t>(std::max(last, std::min(first, row.size()))),
                Mark(played.action));
    }
    text += fmt::format("{:>3} {} {:>3.0f} %\n", stage, row, 100 * timeline.busy[stage] / timeline.seconds);
  }
  return text;
}

void AddTimeline(const ParallelLayout& layout, const StepEstimate& estimate, std::int64_t micro_batches,
                 TraceFile& trace) {
  const Timeline timeline = Play(ScheduleOf(layout, micro_batches), estimate.costs);
  const double stretch = StretchOf(timeline, estimate);
  const int process = trace.AddProcess("predicted");
  for (std::size_t stage = 0; stage < timeline.stages.size(); ++stage) {
    const int compute = trace.AddTrack(process, fmt::format("stage {}", stage));
    const bool sends = estimate.message > 0 && timeline.stages.size() > 1;
    const int forward = sends ? trace.AddTrack(process, fmt::format("stage {} activations", stage)) : 0;
    const int backward = sends ? trace.AddTrack(process, fmt::format("stage {} gradients", stage)) : 0;
    for (const PlayedAction& played : timeline.stages[stage]) {
      const Action& action = played.action;
      trace.AddSlice({.track = compute,
                      .name = fmt::format("{} {}.{}", NameOf(action.kind), action.chunk, action.micro_batch),
                      .kind = NameOf(action.kind),
                      .start = stretch * played.start,
                      .seconds = stretch * (played.end - played.start),
                      .micro_batch = action.micro_batch});
      if (sends && action.kind != ActionKind::kBackwardWeight) {
        trace.AddSlice({.track = action.kind == ActionKind::kForward ? forward : backward,
                        .name = fmt::format("message {}.{}", action.chunk, action.micro_batch),
                        .kind = "send",
                        .start = stretch * played.end,
                        .seconds = stretch * estimate.message,
                        .micro_batch = action.micro_batch});
      }
    }
    double at = stretch * timeline.seconds;
    for (const After& after : kAfter) {
      const double seconds = stretch * estimate.terms.*after.member;
      if (seconds > 0) {
        trace.AddSlice({.track = compute, .name = after.name, .kind = after.name, .start = at, .seconds = seconds});
        at += seconds;
      }
    }
  }
}

std::string TimelineTrace(const ParallelLayout& layout, const StepEstimate& estimate, std::int64_t micro_batches) {
  TraceFile trace;
  AddTimeline(layout, estimate, micro_batches, trace);
  return trace.ToJson();
}

}  // namespace trireme
