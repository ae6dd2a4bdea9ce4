#include "planner/search/work_bound.h"

#include <algorithm>

namespace trireme {

double WorkBound::DeviceSeconds(const ModelAccount& account, const ParallelLayout& layout) {
  const Key key{layout.tensor, layout.context,           layout.context_kind, layout.micro_batch,
                layout.expert, layout.sequence_parallel, layout.recompute,    SplitsBackward(layout.schedule)};
  const auto found = priced_.find(key);
  if (found != priced_.end()) {
    return found->second;
  }
  const PlanPoint point = PointOf(request_, layout);
  // Where some layers recompute and others do not, all count as those that do less.
  const LocalSizes all = point.prices.Sizes(point);
  const LocalSizes sizes = layout.recompute_layers > 0 ? all.WithoutRecompute() : all;
  const ModuleTime block = TimeOfBlock(point, sizes, *account.ProgramOf(sizes));
  double seconds = 0;
  for (const WorkTime& part : {block.forward, block.backward_input, block.backward_weight}) {
    seconds += part.matmul + part.attention + part.memory;
  }
  const RunConfig& config = request_.config;
  const double micro_batches = static_cast<double>(config.batch.global) / layout.micro_batch;
  seconds *= micro_batches * static_cast<double>(config.model.layers) * layout.tensor * layout.context;
  seconds *= request_.state.slowed ? request_.state.efficiencies.slowdown : 1;
  return priced_.emplace(key, seconds).first->second;
}

double WorkBound::LeastSeconds(const ModelAccount& account, const ParallelLayout& layout) {
  if (request_.cluster.device.is_host) {
    return 0;
  }
  const double seconds = DeviceSeconds(account, layout) / layout.ranks();
  // Under 1F1B with one chunk the first micro batch passes all stages before the last one can.
  const bool plain = layout.schedule == ParallelLayout{}.schedule && layout.chunks == 1;
  const double micro_batches =
      static_cast<double>(request_.config.batch.global) / (static_cast<double>(layout.micro_batch) * layout.data);
  return plain ? seconds * (1 + (layout.pipeline - 1) / micro_batches) : seconds;
}

double WorkBound::LeastSeconds(const ModelAccount& account, int ranks) {
  if (request_.cluster.device.is_host) {
    return 0;
  }
  if (request_.stack.features.experts && request_.config.model.experts.any()) {
    return 0;  // an expert axis makes products larger, and faster
  }
  if (least_ < 0) {
    const ModelConfig& model = request_.config.model;
    const int most_tensor = request_.most_tensor > 0 ? request_.most_tensor : request_.cluster.devices_per_node;
    const auto divides = [&](std::int64_t value, int by) { return value % by == 0; };
    for (int tensor = 1; tensor <= most_tensor; ++tensor) {
      const bool cuts = divides(model.heads, tensor) && divides(model.kv_heads, tensor) && divides(model.ffn, tensor);
      for (int micro_batch = 1; cuts && micro_batch <= request_.most_micro_batch; ++micro_batch) {
        if (!divides(request_.config.batch.global, micro_batch)) {
          continue;
        }
        for (const bool parallel : {false, true}) {
          ParallelLayout layout = request_.rest;
          layout.tensor = tensor;
          layout.micro_batch = micro_batch;
          layout.sequence_parallel = parallel && tensor > 1;
          const double seconds = DeviceSeconds(account, layout);
          least_ = least_ < 0 ? seconds : std::min(least_, seconds);
        }
      }
    }
    least_ = request_.most_context > 1 || request_.context.value_or(1) > 1 ? 0 : std::max(least_, 0.0);
  }
  return least_ / ranks;
}

}  // namespace trireme
