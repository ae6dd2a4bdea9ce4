#include "cost/communication_memory.h"

#include <algorithm>
#include <set>

#include "lowering/ring_plan.h"
#include "schedule/schedule.h"

namespace trireme {
namespace {

// DeviceMessages has so many for each way; the next message goes while the last one is read.
constexpr std::int64_t kBuffersOfWay = 2;

// Both ways to the next and the previous member of a ring, which are one member in a ring of two.
int WaysOfRing(int size) { return size < 2 ? 0 : size == 2 ? 2 : 4; }

// Groups of more than one member, in the order of GridComms.
int GroupsOf(const StageDescription& stage) {
  const ParallelLayout& layout = stage.layout;
  const int head_ranks = stage.sizes.head_ranks;
  const bool divided = head_ranks > 1 && head_ranks < layout.context;
  const bool copied = layout.copies() > 1;
  const int head_stage = PlacementOf(layout).HeadStage();
  const bool tied = head_stage != 0 && (stage.pipeline == 0 || stage.pipeline == head_stage);
  int groups = 0;
  for (const bool exists : {layout.ranks() > 1, layout.tensor > 1, layout.context > 1, divided, divided,
                            layout.replicas() > 1, copied && layout.shards() > 1, copied, layout.pipeline > 1, tied}) {
    groups += exists ? 1 : 0;
  }
  return groups;
}

// To and from the stages whose tensors come and go.
int PipelineWays(const StageDescription& stage) {
  const StagePlacement placement = PlacementOf(stage.layout);
  std::set<int> neighbours;
  for (int chunk = 0; chunk < placement.chunks; ++chunk) {
    const int here = placement.VirtualStage(stage.pipeline, chunk);
    for (const int other : {here - 1, here + 1}) {
      if (placement.IsRemote(here, other)) {
        neighbours.insert(placement.StageOf(other));
      }
    }
  }
  return 2 * static_cast<int>(neighbours.size());
}

}  // namespace

CommunicationMemory CommunicationOf(const StageDescription& stage) {
  const LocalSizes& sizes = stage.sizes;
  const int pipeline_ways = PipelineWays(stage);
  CommunicationMemory memory{.communicators = GroupsOf(stage) + pipeline_ways, .buffers = 0};
  memory.buffers = pipeline_ways * kBuffersOfWay * sizes.outside * sizes.hidden * sizes.element();
  if (sizes.ring) {
    memory.communicators += WaysOfRing(sizes.context / sizes.head_ranks);
    // To the next rank and from the previous one: keys and values in forward, and in backward their gradients too.
    const RingPlan plan(sizes.OfAttention(), true);
    memory.buffers += 2 * kBuffersOfWay *
                      (plan.kv[0].shape.count() * SizeOf(plan.kv[0].dtype) +
                       plan.grad_kv[0].shape.count() * SizeOf(plan.grad_kv[0].dtype));
  }
  return memory;
}

}  // namespace trireme
