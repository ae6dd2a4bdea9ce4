#include "schedule/kinds.h"

#include "base/error.h"

namespace trireme {

const std::vector<ScheduleKind>& ScheduleKinds() {
  static const std::vector<ScheduleKind> kinds = {
      GPipe(),
      OneForwardOneBackward(),
      Interleaved(),
      ZeroBubble(),
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

void RequireOneChunk(const char* kind, int chunks) {
  Require(chunks == 1,
          "schedule '{}' runs one chunk a stage, not layout.chunks = {}; set chunks = 1, or schedule = interleaved",
          kind, chunks);
}

}  // namespace trireme
