// Interleaved 1F1B: each stage holds v chunks that lie p virtual stages apart, and runs p micro batches through one
// chunk before the next (Narayanan et al. 2021). With p stages, v chunks and m micro batches, m a multiple of p:
//   bubble (idle over busy):     (p - 1) / (v m)
//   most in flight on stage s:   min(2 (p - s - 1) + (v - 1) p + 1, v m) pairs of chunk and micro batch,
//                                each 1/v of a stage's activations; chunks reach their most at different moments, so
//                                that the slots of all chunks together may be more
// With v = 1 the warm-up is still twice that of 1F1B: this order, not that one.
#include <algorithm>

#include "base/error.h"
#include "schedule/kinds.h"
#include "topology/nearest.h"

namespace trireme {
namespace {

// The `index`-th forward of a stage; backwards take the chunks from the last to the first.
Action Pass(ActionKind kind, int index, int stages, int chunks) {
  const int group = index / (stages * chunks);
  const int chunk = index % (stages * chunks) / stages;
  return {.kind = kind,
          .chunk = kind == ActionKind::kForward ? chunk : chunks - 1 - chunk,
          .micro_batch = group * stages + index % stages};
}

std::vector<std::vector<Action>> MakeInterleaved(int stages, int chunks, int micro_batches) {
  Require(micro_batches % stages == 0,
          "schedule 'interleaved' needs micro batches in multiples of layout.pipeline = {}, but a data rank runs {}; "
          "nearest that work: {}",
          stages, micro_batches, NearestMultiples(micro_batches, stages));
  const int passes = chunks * micro_batches;
  std::vector<std::vector<Action>> actions(static_cast<std::size_t>(stages));
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<Action>& list = actions[static_cast<std::size_t>(stage)];
    const int warmup = std::min((stages - stage - 1) * 2 + (chunks - 1) * stages, passes);
    for (int forward = 0; forward < warmup; ++forward) {
      list.push_back(Pass(ActionKind::kForward, forward, stages, chunks));
    }
    for (int backward = 0; backward < passes; ++backward) {
      if (warmup + backward < passes) {
        list.push_back(Pass(ActionKind::kForward, warmup + backward, stages, chunks));
      }
      list.push_back(Pass(ActionKind::kBackward, backward, stages, chunks));
    }
  }
  return actions;
}

}  // namespace

ScheduleKind Interleaved() {
  return {.name = "interleaved",
          .description = "1F1B over v chunks a stage; bubble (p-1)/(v m), needs m in multiples of p",
          .least_chunks = 2,
          .most_chunks = kAnyChunks,
          .rounds_of_micro_batches = true,
          .bubble_share = [](int stages, int chunks,
                             double micro_batches) { return FillAndDrainShare(stages, 1, chunks * micro_batches); },
          .make = MakeInterleaved};
}

}  // namespace trireme
