#include "schedule/kinds.h"

#include "base/error.h"

namespace trireme {

const std::vector<ScheduleKind>& ScheduleKinds() {
  static const std::vector<ScheduleKind> kinds = {
      GPipe(), OneForwardOneBackward(), Interleaved(), ZeroBubble(), ZeroBubbleV(),
  };
  return kinds;
}

const ScheduleKind* FindScheduleKind(const std::string& name) {
  for (const ScheduleKind& kind : ScheduleKinds()) {
    if (kind.name == name) {
      return &kind;
    }
  }
  return nullptr;
}

double FillAndDrainShare(int stages, int /*chunks*/, double micro_batches) {
  const double idle = stages - 1;
  return idle / (micro_batches + idle);
}

void RequireChunks(const char* kind, int chunks, int wanted) {
  std::string others;
  for (const ScheduleKind& other : ScheduleKinds()) {
    if (chunks >= other.least_chunks && chunks <= other.most_chunks) {
      others += (others.empty() ? ", or schedule = " : " or ") + other.name;
    }
  }
  Require(chunks == wanted, "schedule '{}' runs {} chunk{} per stage, not layout.chunks = {}; set chunks = {}{}", kind,
          wanted, wanted == 1 ? "" : "s", chunks, wanted, others);
}

}  // namespace trireme
