#include "cost/gradient_places.h"

#include <algorithm>
#include <numeric>

namespace trireme {
namespace {

bool OneMicroBatchAtATime(const StageDescription& stage) {
  return stage.layout.virtual_stages() == 1 && !stage.layout.offload_activations && stage.most_micro_batches == 1 &&
         !stage.sizes.split_backward;
}

}  // namespace

GradientPlaces::GradientPlaces(const StageDescription& stage)
    : over_activations(OneMicroBatchAtATime(stage) && !ZeroShards(stage.layout.zero).gradients) {
  if (!over_activations) {
    return;
  }
  const std::vector<Bucket>& buckets = stage.shards.buckets;
  std::vector<std::int64_t> ends = KeptOfModules(stage, 0);  // of each module's activations
  std::partial_sum(ends.begin(), ends.end(), ends.begin());

  // From the top down. `above`: gradients that are there already; activations below `live` may still be read. The
  // head's forward adds to its own gradients and to a tied table's, and the last block's backward finds its incoming
  // gradient in the head's place.
  std::int64_t above = 0;
  std::int64_t top = ends.back();
  std::vector<std::int64_t> from_top(buckets.size());
  std::size_t module = ends.size() - 1;
  const bool adapters = stage.model.adapter.any();
  for (std::size_t bucket = buckets.size(); bucket-- > 0;) {
    const std::int64_t live = module + 2 >= ends.size() ? ends.back() : ends[module];
    if (!buckets[bucket].frozen) {
      above += RoundUp(buckets[bucket].count * SizeOf(DType::kFloat32), kPlanAlignment);
      top = std::max(top, live + above);
    }
    from_top[bucket] = above;
    // A module's first bucket is its frozen one, where there are any.
    const bool first = static_cast<int>(bucket) != stage.shards.tied_bucket && buckets[bucket].frozen == adapters;
    module -= first ? 1 : 0;
  }
  for (const std::int64_t distance : from_top) {
    offsets.push_back(top - distance);
  }
  beyond = top - ends.back();
}

}  // namespace trireme
