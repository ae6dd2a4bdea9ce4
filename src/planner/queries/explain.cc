#include "planner/queries/explain.h"

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "planner/pricing/block_time.h"
#include "planner/pricing/collective_time.h"
#include "planner/pricing/interval.h"

namespace trireme {
namespace {

constexpr double kLeastGain = 0.002;
constexpr double kNearlyFullHost = 0.8;

void WarnOfShapes(const PlanPoint& point, const Explanation& explanation, std::vector<std::string>& warnings) {
  const std::int64_t head = point.config.model.head_size();
  if (explanation.misalignment > 0) {
    warnings.push_back(
        fmt::format("head size {} (hidden {} / heads {}) is no multiple of {}: attention products leave the matrix "
                    "units' fast path "
                    "and cost {:.2f} s/step more than aligned ones ({:.0f} %). Uncertain by about a third: "
                    "hidden/tensor = {} and "
                    "its tiles may carry a part (tiles and waves: {:.2f} s)",
                    head, point.config.model.hidden, point.config.model.heads, point.stack.time.head_multiple,
                    explanation.misalignment, 100 * explanation.misalignment / explanation.estimate.seconds,
                    point.config.model.hidden / point.config.layout.tensor, explanation.wave_loss));
  } else if (point.flash() && head != 64 && head != 128) {
    warnings.push_back(fmt::format("head size {}: fused attention is fastest at 128 and 64", head));
  }
  if (!point.flash() && !FusesSoftmax(point)) {
    const ParallelLayout& layout = point.config.layout;
    const std::int64_t heads = point.config.model.heads / layout.tensor;
    warnings.push_back(
        fmt::format("heads / tensor x micro batch = {} x {} is no multiple of {}: the program's fused "
                    "softmax does not take it, and its scores pass through memory several times more",
                    heads, layout.micro_batch, point.stack.time.softmax_multiple));
  }
  const std::int64_t width = point.config.model.hidden / point.config.layout.tensor;
  if (width % 64 != 0) {
    warnings.push_back(fmt::format("hidden / tensor = {} is no multiple of 64: tiles are partly filled", width));
  }
  const std::int64_t vocabulary = point.prices.Vocabulary(point);
  if (vocabulary % 128 != 0) {
    warnings.push_back(fmt::format("the vocabulary of a rank, {}, is no multiple of 128: pad it to {}", vocabulary,
                                   RoundUp(vocabulary, 128) * point.config.layout.tensor));
  }
}

void WarnOfLayout(const SearchRequest& request, const PlanPoint& point, const Explanation& explanation,
                  std::vector<std::string>& warnings) {
  const StepEstimate& estimate = explanation.estimate;
  if (estimate.slowest_share > 1.05) {
    warnings.push_back(fmt::format("stage {} works {:.0f} % more than the mean stage; a partition by cost helps",
                                   estimate.slowest, 100 * (estimate.slowest_share - 1)));
  }
  if (PlaceTensor(point.cluster, point.config.layout).crosses_nodes()) {
    warnings.push_back(fmt::format("tensor degree {} crosses nodes of {} devices: every layer waits for the network",
                                   point.config.layout.tensor, point.cluster.devices_per_node));
  }
  const double usable = UsableMemory(request.cluster);
  if (estimate.memory.peak > usable) {
    warnings.push_back(fmt::format("OUT OF MEMORY: stage {} needs {:.1f} GiB of {:.1f}", estimate.memory.worst,
                                   estimate.memory.peak / kGibi, usable / kGibi));
  } else if (FitProbability(estimate.memory.peak, usable, request.state.memory_spread) < 0.9) {
    warnings.push_back(fmt::format(
        "near out of memory: stage {} fills {:.1f} of {:.1f} GiB, and estimates err by {:.0f} %{}",
        estimate.memory.worst, estimate.memory.peak / kGibi, usable / kGibi, 100 * request.state.memory_spread,
        request.stack.policy.counted_costs ? "" : "; an allocator that frees and tries again is several times slower"));
  }
  const double host = estimate.memory.host_per_node / request.cluster.job_memory();
  if (host > kNearlyFullHost && host <= 1) {
    warnings.push_back(fmt::format("near out of host memory: {:.0f} GiB per node of {:.0f} that the system leaves",
                                   estimate.memory.host_per_node / kGibi, request.cluster.job_memory() / kGibi));
  }
  if (host > 1) {
    warnings.push_back(fmt::format("OUT OF HOST MEMORY: {:.0f} GiB per node of {:.0f}",
                                   estimate.memory.host_per_node / kGibi, request.cluster.job_memory() / kGibi));
  }
  const std::int64_t filling = static_cast<std::int64_t>(point.config.layout.pipeline);
  if (point.micro_batches() < filling) {
    warnings.push_back(fmt::format("{} micro batches do not fill {} stages: the batch that does is {}",
                                   point.micro_batches(), point.config.layout.pipeline,
                                   filling * point.config.layout.micro_batch * point.config.layout.data));
  }
  if (!request.state.calibrated) {
    warnings.push_back(
        fmt::format("stack '{}' was never calibrated on '{}': 8 of 10 runs are within {:.0f} %. Five runs of one's own "
                    "(plan validate --fit 5) narrow that",
                    request.stack.name, request.cluster.name, 100 * (estimate.high / estimate.seconds - 1)));
  }
}

double WaveLoss(const PlanPoint& point, const ModelAccount& account, PipelineClock& clock, double seconds) {
  StackState state = point.stack;
  state.time.wave_weight = 0;
  return seconds - EstimateTime(point.Under(state), account, clock).seconds;
}

double Misalignment(const PlanPoint& point, const ModelAccount& account, PipelineClock& clock, double seconds) {
  if (!HeadMisaligned(point)) {
    return 0;
  }
  StackState state = point.stack;
  state.efficiencies.attention_unaligned = state.efficiencies.attention;
  return seconds - EstimateTime(point.Under(state), account, clock).seconds;
}

std::vector<AxisTrade> InsteadOfContext(const SearchRequest& request, const ParallelLayout& layout) {
  std::vector<AxisTrade> trades;
  const auto add = [&](const char* axis, int ParallelLayout::*degree) {
    AxisTrade trade{.axis = axis, .layout = layout};
    trade.layout.*degree *= layout.context;
    trade.layout.context = trade.layout.context_stripes = 1;
    trade.layout.context_kind = ContextKind::kAllGather;
    trade.layout.ulysses = 0;
    trade.layout.sequence_parallel |= trade.layout.tensor > 1 && request.stack.features.sequence_parallel;
    try {
      const Candidate candidate = Price(request, trade.layout);
      trade.seconds = candidate.seconds;
      trade.peak = candidate.peak;
      if (!Fits(request, candidate)) {
        trade.refusal = fmt::format("does not fit: {:.1f} of {:.1f} GiB", candidate.peak / kGibi,
                                    UsableMemory(request.cluster) / kGibi);
      }
    } catch (const Error& error) {
      trade.refusal = error.what();
    }
    trades.push_back(trade);
  };
  if (layout.context > 1) {
    add("tensor", &ParallelLayout::tensor);
    add("pipeline", &ParallelLayout::pipeline);
    add("data", &ParallelLayout::data);
  }
  return trades;
}

}  // namespace

std::vector<std::pair<std::string, ParallelLayout>> Neighbours(const SearchRequest& request,
                                                               const ParallelLayout& layout) {
  std::vector<std::pair<std::string, ParallelLayout>> neighbours;
  const auto add = [&](const std::string& what, auto change) {
    ParallelLayout other = layout;
    change(other);
    if (!(other == layout)) {
      neighbours.emplace_back(what, other);
    }
  };
  add("micro batch doubled", [](ParallelLayout& l) { l.micro_batch *= 2; });
  add("micro batch halved", [](ParallelLayout& l) { l.micro_batch = std::max(l.micro_batch / 2, 1); });
  const auto trade = [&](const char* what, int ParallelLayout::*from, int ParallelLayout::*to) {
    if (layout.*from % 2 == 0) {
      add(what, [&](ParallelLayout& l) {
        l.*from /= 2;
        l.*to *= 2;
      });
    }
  };
  trade("tensor halved for data", &ParallelLayout::tensor, &ParallelLayout::data);
  trade("tensor halved for pipeline", &ParallelLayout::tensor, &ParallelLayout::pipeline);
  trade("pipeline halved for data", &ParallelLayout::pipeline, &ParallelLayout::data);
  trade("pipeline halved for tensor", &ParallelLayout::pipeline, &ParallelLayout::tensor);
  trade("data halved for tensor", &ParallelLayout::data, &ParallelLayout::tensor);
  trade("data halved for pipeline", &ParallelLayout::data, &ParallelLayout::pipeline);
  trade("data halved for context", &ParallelLayout::data, &ParallelLayout::context);
  trade("tensor halved for context", &ParallelLayout::tensor, &ParallelLayout::context);
  trade("context halved for data", &ParallelLayout::context, &ParallelLayout::data);
  trade("context halved for tensor", &ParallelLayout::context, &ParallelLayout::tensor);
  trade("pipeline halved for context", &ParallelLayout::pipeline, &ParallelLayout::context);
  trade("context halved for pipeline", &ParallelLayout::context, &ParallelLayout::pipeline);
  if (layout.context > 1 && request.prices().prices_every_recipe()) {
    for (const ContextKind kind :
         {ContextKind::kAllGather, ContextKind::kRing, ContextKind::kUlysses, ContextKind::kUlyssesRing}) {
      add("context by " + Name(kind), [&](ParallelLayout& l) { l.context_kind = kind; });
    }
  }
  const StackFeatures& features = request.stack.features;
  for (const int zero : features.zero) {
    add(fmt::format("ZeRO {}", zero), [&](ParallelLayout& l) { l.zero = zero; });
  }
  for (const std::string& recompute : features.recompute) {
    add("recompute " + recompute,
        [&](ParallelLayout& l) { l.recompute = FromWord<Recompute>("recompute", recompute); });
  }
  for (const std::string& offload : request.offloads()) {
    add("offload " + offload, [&](ParallelLayout& l) { l.offload = FromWord<Offload>("offload", offload); });
  }
  if (request.prices().prices_every_recipe() && !request.cluster.device.is_host) {
    add(layout.offload_activations ? "activations on the device" : "activations in host memory",
        [](ParallelLayout& l) { l.offload_activations = !l.offload_activations; });
  }
  for (const std::string& partition : features.partitions) {
    add("partition " + partition, [&](ParallelLayout& l) { l.partition = partition; });
  }
  if (features.sequence_parallel && layout.tensor > 1) {
    add("sequence parallelism", [](ParallelLayout& l) { l.sequence_parallel = true; });
  }
  for (const std::string& schedule : features.schedules) {
    if (layout.pipeline > 1) {
      const ScheduleKind* kind = FindScheduleKind(schedule);
      const int chunks = kind == nullptr ? 1 : std::clamp(layout.chunks, kind->least_chunks, kind->most_chunks);
      add("schedule " + schedule, [&](ParallelLayout& l) {
        l.schedule = schedule;
        l.chunks = chunks;
      });
    }
  }
  return neighbours;
}

Explanation Explain(const SearchRequest& request, const ParallelLayout& layout) {
  Explanation explanation;
  explanation.candidate = Price(request, layout);
  const PlanPoint point = PointOf(request, layout);
  const ModelAccount account(request.config.model);
  PipelineClock clock;
  explanation.estimate = EstimateStep(point, account, clock);
  explanation.estimate.low = explanation.candidate.low;
  explanation.estimate.high = explanation.candidate.high;
  const double seconds = explanation.estimate.seconds;
  explanation.misalignment = Misalignment(point, account, clock, seconds);
  explanation.wave_loss = WaveLoss(point, account, clock, seconds);
  WarnOfShapes(point, explanation, explanation.warnings);
  WarnOfLayout(request, point, explanation, explanation.warnings);
  explanation.instead = InsteadOfContext(request, layout);
  for (const auto& [what, other] : Neighbours(request, layout)) {
    try {
      const Candidate candidate = Price(request, other);
      const double gain = 1 - candidate.seconds / seconds;
      const bool allowed =
          other.tensor <= (request.most_tensor > 0 ? request.most_tensor : request.cluster.devices_per_node);
      if (Fits(request, candidate) && allowed && gain > kLeastGain) {
        explanation.changes.push_back({.what = what, .candidate = candidate, .gain = gain});
      }
    } catch (const Error&) {
      continue;  // a neighbour that does not divide is no suggestion
    }
  }
  std::sort(explanation.changes.begin(), explanation.changes.end(),
            [](const SingleChange& a, const SingleChange& b) { return a.gain > b.gain; });
  return explanation;
}

}  // namespace trireme
