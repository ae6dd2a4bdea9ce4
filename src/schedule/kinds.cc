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

void RequireOneChunk(const char* kind, int chunks) {
  Require(chunks == 1,
          "schedule '{}' runs one chunk a stage, not layout.chunks = {}; set chunks = 1, or schedule = interleaved",
          kind, chunks);
}

}  // namespace trireme
