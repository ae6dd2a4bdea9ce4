#include "planner/search/preference.h"

#include <tuple>

#include "planner/pricing/collective_time.h"
#include "planner/pricing/interval.h"
#include "planner/pricing/memory_estimate.h"

namespace trireme {
namespace {

// Layouts that fit less surely are near the end of memory.
constexpr double kSure = 0.9;

int OptionsOf(const ParallelLayout& layout) {
  return (layout.schedule != ParallelLayout{}.schedule ? 1 : 0) + (layout.chunks > 1 ? 1 : 0) +
         (layout.partition != ParallelLayout{}.partition ? 1 : 0) + (layout.context > 1 ? 1 : 0) +
         (layout.sequence_parallel ? 1 : 0) + (layout.recompute != Recompute::kNone ? 1 : 0) + layout.zero;
}

double CrossNodeBytes(const PlanPoint& point) {
  constexpr double kElement = 2;
  constexpr double kCollectivesOfBlock = 8;  // all-gathers and reductions, forward and backward
  const ParallelLayout& layout = point.config.layout;
  const ModelConfig& model = point.config.model;
  const auto micro_batches = static_cast<double>(point.micro_batches());
  const double message =
      kElement * layout.micro_batch * static_cast<double>(model.sequence * model.hidden) / layout.context;
  const double blocks = static_cast<double>(model.layers) / layout.pipeline;
  double bytes = 0;
  if (PlaceTensor(point.cluster, layout).crosses_nodes()) {
    bytes += kCollectivesOfBlock * blocks * micro_batches * message;
  }
  if (PlaceContext(point.cluster, layout).crosses_nodes()) {
    bytes += kCollectivesOfBlock / 2 * blocks * micro_batches * message;
  }
  if (StagesCrossNodes(point.cluster, layout)) {
    bytes += 2 * micro_batches * layout.chunks * message;
  }
  if (PlaceData(point.cluster, layout).crosses_nodes()) {
    const double parameters = static_cast<double>(ParameterCount(model)) / layout.tensor / layout.pipeline;
    bytes += 2 * kElement * parameters * (ZeroShards(layout.zero).gradients ? micro_batches : 1);
  }
  return bytes;
}

}  // namespace

bool Preference::operator<(const Preference& other) const {
  return std::tie(nearly_full, offloads, stages, options, cross_node_bytes) <
         std::tie(other.nearly_full, other.offloads, other.stages, other.options, other.cross_node_bytes);
}

Preference PreferenceOf(const PlanPoint& point, double peak) {
  const ParallelLayout& layout = point.config.layout;
  const double sure = FitProbability(peak, UsableMemory(point.cluster), point.stack.memory_spread);
  return {.nearly_full = sure < kSure,
          .offloads = static_cast<int>(layout.offload) + (layout.offload_activations ? 3 : 0),
          .stages = layout.pipeline,
          .options = OptionsOf(layout),
          .cross_node_bytes = CrossNodeBytes(point)};
}

}  // namespace trireme
