#include "planner/timeline.h"

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
    default:
      return "backward weight";
  }
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

std::string Event(const std::string& name, int process, int track, double start, double duration) {
  return fmt::format(R"({{"name":"{}","ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}}})", name, process, track,
                     start * 1e6, duration * 1e6);
}

}  // namespace

std::string TimelineText(const ParallelLayout& layout, const StepEstimate& estimate, std::int64_t micro_batches,
                         int columns) {
  const Timeline timeline = Play(ScheduleOf(layout, micro_batches), estimate.costs);
  const double scale = static_cast<double>(std::clamp(columns, 20, 1000)) / timeline.seconds;
  std::string text =
      fmt::format("pipeline of {:.3f} s; 0-9 forward, a-z backward, A-Z weight part, . idle\n", timeline.seconds);
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

std::string TimelineTrace(const ParallelLayout& layout, const StepEstimate& estimate, std::int64_t micro_batches) {
  const Timeline timeline = Play(ScheduleOf(layout, micro_batches), estimate.costs);
  std::string events;
  const auto add = [&](const std::string& event) { events += (events.empty() ? "" : ",\n") + event; };
  for (std::size_t stage = 0; stage < timeline.stages.size(); ++stage) {
    const auto process = static_cast<int>(stage);
    add(fmt::format(R"({{"name":"process_name","ph":"M","pid":{},"args":{{"name":"stage {}"}}}})", process, process));
    for (const PlayedAction& played : timeline.stages[stage]) {
      add(Event(fmt::format("{} {}.{}", NameOf(played.action.kind), played.action.chunk, played.action.micro_batch),
                process, 0, played.start, played.end - played.start));
      const bool sends = estimate.message > 0 && played.action.kind != ActionKind::kBackwardWeight;
      if (sends) {
        add(Event(fmt::format("message {}.{}", played.action.chunk, played.action.micro_batch), process,
                  played.action.kind == ActionKind::kForward ? 1 : 2, played.end, estimate.message));
      }
    }
    double at = timeline.seconds;
    for (const After& after : kAfter) {
      const double seconds = estimate.terms.*after.member;
      if (seconds > 0) {
        add(Event(after.name, process, 0, at, seconds));
        at += seconds;
      }
    }
  }
  return "{\"traceEvents\":[\n" + events + "\n]}\n";
}

}  // namespace trireme
