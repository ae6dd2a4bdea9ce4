#include "planner/search/search.h"

#include <algorithm>
#include <atomic>
#include <numbers>

#include "base/error.h"
#include "planner/pricing/interval.h"
#include "planner/pricing/step_estimate.h"
#include "planner/search/fan_out.h"
#include "planner/search/kept.h"
#include "planner/search/layout_space.h"
#include "planner/search/preference.h"
#include "planner/search/work_bound.h"
#include "topology/nearest.h"

namespace trireme {
namespace {

// FLOP/s by the data sheet, not what the chip's power holds.
double SheetPeak(const PlanPoint& point) {
  const DeviceSpec& device = point.cluster.device;
  return device.Peak(DTypeOf(point.config)) / device.sustained;
}

Candidate CandidateOf(const PlanPoint& point, const ModelAccount& account, const StepEstimate& estimate) {
  const double devices = point.config.layout.ranks();
  const double model_flops = ModelFlops(point) / estimate.seconds / devices;
  return {.layout = point.config.layout,
          .seconds = estimate.seconds,
          .low = estimate.low,
          .high = estimate.high,
          .peak = estimate.memory.peak,
          .host = estimate.memory.host_per_node,
          .nvme = estimate.memory.nvme_per_node,
          .hardware_tflops = point.prices.HardwareFlops(point, account) / estimate.seconds / devices / 1e12,
          .model_tflops = model_flops / 1e12,
          .mfu = model_flops / SheetPeak(point),
          .tokens_per_second = static_cast<double>(point.config.batch.global) *
                               static_cast<double>(point.config.model.sequence) / estimate.seconds};
}

void SetInterval(const PlanPoint& point, const ModelAccount& account, PipelineClock& clock, Candidate& candidate) {
  const double spread = SpreadOf(point, account, clock);
  candidate.low = candidate.seconds / (1 + spread);
  candidate.high = candidate.seconds * (1 + spread);
}

// A bound is summed in another order than what it bounds: rounding may lift it.
constexpr double kLeast = 1 - 1e-9;

// What one thread finds.
class Searcher {
 public:
  Searcher(const SearchRequest& request, const ModelAccount& account)
      : request_(request), account_(account), kept_(request), bound_(request), point_(PointOf(request, {})) {}

  void Run(const LayoutBranch& branch) {
    result_.enumerated += branch.leaves;
    if (!branch.refusal.empty()) {
      result_.refused[branch.refusal] += branch.leaves;
      return;
    }
    // Memory grows with the micro batch: once one does not fit, larger ones do not either.
    bool full = false;
    for (const int micro_batch : branch.micro_batches) {
      if (full) {
        ++result_.refused[kOutOfDeviceMemory];
        continue;
      }
      ParallelLayout layout = branch.layout;
      layout.micro_batch = micro_batch;
      full = !Visit(layout);
    }
  }

  const SearchRequest& request_;
  ModelAccount account_;
  PipelineClock clock_;
  Kept kept_;
  SearchResult result_;

 private:
  // Whether it is slower than what the request asks for, or than all that is kept, by the work of its blocks alone.
  bool IsTooSlow(const ParallelLayout& layout) {
    const double too_slow = std::min(request_.most_seconds, kept_.TooSlow());
    return too_slow < std::numeric_limits<double>::infinity() &&
           kLeast * bound_.LeastSeconds(account_, layout) >= too_slow;
  }

  // Whether a layout that takes at least `seconds` can be among what is kept.
  bool MayBeKept(double seconds, double peak) const { return kept_.CanTie(seconds) || kept_.Matters(seconds, peak); }

  // False when device memory does not suffice.
  bool Visit(const ParallelLayout& layout) {
    point_.config.layout = layout;
    const PlanPoint& point = point_;
    const std::string refusal = RefusalOf(request_, layout);
    if (!refusal.empty()) {
      ++result_.refused[refusal];
      return true;
    }
    if (IsTooSlow(layout)) {
      ++result_.pruned;
      return true;
    }
    const std::vector<std::int64_t> blocks = BlocksOfStages(point);
    // Where the time alone decides it is looked at before memory: most layouts are too slow.
    std::optional<StepEstimate> bound;
    if (kept_.TooSlow() < std::numeric_limits<double>::infinity()) {
      bound = BoundTime(point, account_, blocks);
      if (bound->seconds >= kept_.TooSlow()) {
        ++result_.pruned;
        return true;
      }
    }
    const MemoryEstimate memory = EstimatePeak(point, account_, blocks, clock_);
    if (memory.peak > UsableMemory(request_.cluster) * (1 - request_.headroom)) {
      ++result_.refused[kOutOfDeviceMemory];
      return false;
    }
    if (memory.host_per_node > request_.cluster.job_memory()) {
      ++result_.refused[kOutOfHostMemory];
      return true;
    }
    if (!MayBeKept(kLeast * bound_.LeastSeconds(account_, layout), memory.peak)) {
      ++result_.pruned;
      return true;
    }
    StepEstimate estimate = bound ? std::move(*bound) : BoundTime(point, account_, blocks);
    std::optional<Preference> preference;
    if (kept_.CanTie(estimate.seconds)) {
      preference = PreferenceOf(point, memory.peak);
      if (!kept_.MayBePreferred(estimate.seconds, *preference)) {
        preference.reset();
      }
    }
    if (!preference && !kept_.Matters(estimate.seconds, memory.peak)) {
      ++result_.pruned;
      return true;
    }
    PlayTime(point, clock_, estimate);
    estimate.memory = memory;
    ++result_.priced;
    const Candidate candidate = CandidateOf(point, account_, estimate);
    kept_.Add(candidate);
    if (preference && candidate.seconds < request_.most_seconds) {
      kept_.AddTie(candidate, *preference);
    }
    return true;
  }

  WorkBound bound_;
  PlanPoint point_;  // of the layout that is visited
};

}  // namespace

std::vector<std::string> SearchRequest::offloads() const {
  return cluster.device.is_host && !offload ? std::vector<std::string>{"none"} : stack.features.offload;
}

namespace {

// Programs with an expert axis keep each expert whole on a rank.
ParallelLayout WithWholeExperts(const SearchRequest& request, ParallelLayout layout) {
  if (request.stack.features.experts && request.config.model.experts.any() && layout.expert_tensor == 0) {
    layout.expert_tensor = 1;
  }
  return layout;
}

}  // namespace

void RequirePossible(const SearchRequest& request, const ParallelLayout& asked) {
  const ParallelLayout layout = WithWholeExperts(request, asked);
  const std::string unable = StackRefusal(request, layout);
  Require(unable.empty(), "{}", unable);
  if (const std::optional<NotOffered> refusal = TrainerRefusal(request, layout)) {
    Fail("{}: {}", layout.ToString(), refusal->message);
  }
  Require(
      layout.tensor >= 1 && layout.pipeline >= 1 && layout.data >= 1 && layout.micro_batch >= 1 && layout.chunks >= 1,
      "degrees and micro batch must be at least 1: {}", layout.ToString());
  const double ranks = static_cast<double>(layout.tensor) * layout.context * layout.pipeline * layout.data;
  Require(ranks <= 1e8, "{:.0f} ranks are more than there are: {}", ranks, layout.ToString());
  if (layout.ranks() != request.devices) {
    const int replica = layout.ranks() / layout.data;
    Fail("tensor {} x context {} x pipeline {} x data {} = {} ranks, but {} devices; {}", layout.tensor, layout.context,
         layout.pipeline, layout.data, layout.ranks(), request.devices,
         request.devices % replica == 0 ? fmt::format("dp={} would fit", request.devices / replica)
                                        : fmt::format("with these other degrees the nearest that work are {} devices",
                                                      NearestMultiples(request.devices, replica)));
  }
  RequireDivisible(request.config.model, layout);
  const std::int64_t replica = static_cast<std::int64_t>(layout.micro_batch) * layout.data;
  Require(request.config.batch.global % replica == 0,
          "global batch {} is not divisible by micro batch {} x data {} = {}; the nearest that is: {}",
          request.config.batch.global, layout.micro_batch, layout.data, replica,
          NearestMultiples(request.config.batch.global, replica));
  const PlanPoint point = PointOf(request, layout);
  if (request.state.policy.strict_partition || layout.partition != "uniform") {
    StagePartition(request.config.model, layout);
  }
  PipelineClock().Slots({layout.schedule, layout.pipeline, layout.chunks, point.micro_batches()}, 0);
  const std::string refusal = RefusalOf(request, layout);
  Require(refusal.empty(), "{}: {}", layout.ToString(), refusal);
}

bool Fits(const SearchRequest& request, const Candidate& candidate) {
  return candidate.peak <= UsableMemory(request.cluster) * (1 - request.headroom) &&
         candidate.host <= request.cluster.job_memory();
}

Candidate Price(const SearchRequest& request, const ParallelLayout& layout) {
  RequirePossible(request, layout);
  PipelineClock clock;
  const PlanPoint point = PointOf(request, layout);
  const ModelAccount account(request.config.model);
  Candidate candidate = CandidateOf(point, account, EstimateStep(point, account, clock));
  SetInterval(point, account, clock, candidate);
  return candidate;
}

RunConfig ConfigOf(const SearchRequest& request, const ParallelLayout& layout) {
  RunConfig config = request.config;
  config.layout = WithWholeExperts(request, layout);
  config.train.attention = request.state.time.flash ? AttentionEngine::kFlash : AttentionEngine::kPlain;
  return config;
}

PlanPoint PointOf(const SearchRequest& request, const ParallelLayout& layout) {
  return {.cluster = request.cluster,
          .stack = request.state,
          .config = ConfigOf(request, layout),
          .power_sgd = request.power_sgd,
          .fused_optimizer = request.fused_optimizer,
          .factored_moments = request.factored_moments};
}

namespace {

SearchResult SearchAll(const SearchRequest& request) {
  Require(request.devices >= 1 && request.devices <= request.cluster.devices(),
          "{} devices asked for, but cluster '{}' has {} ({} nodes of {})", request.devices, request.cluster.name,
          request.cluster.devices(), request.cluster.nodes, request.cluster.devices_per_node);
  Require(request.config.batch.global >= 1, "the global batch must be at least 1, not {}", request.config.batch.global);
  Require(request.headroom >= 0 && request.headroom < 1, "memory headroom {} must be a share of at least 0 and below 1",
          request.headroom);
  const std::vector<LayoutBranch> branches = LayoutBranches(request);
  const ModelAccount account(request.config.model);
  std::vector<Searcher> searchers;
  for (int i = 0; i < std::max(request.threads, 1); ++i) {
    searchers.emplace_back(request, account);
  }
  std::atomic<std::size_t> next{0};
  FanOut(static_cast<int>(searchers.size()), [&](int worker) {
    for (std::size_t i = next++; i < branches.size(); i = next++) {
      searchers[static_cast<std::size_t>(worker)].Run(branches[i]);
    }
  });
  Searcher& first = searchers.front();
  SearchResult result = first.result_;
  for (std::size_t i = 1; i < searchers.size(); ++i) {
    first.kept_.Merge(searchers[i].kept_);
    result.enumerated += searchers[i].result_.enumerated;
    result.pruned += searchers[i].result_.pruned;
    result.priced += searchers[i].result_.priced;
    for (const auto& [reason, count] : searchers[i].result_.refused) {
      result.refused[reason] += count;
    }
  }
  if (!first.kept_.ranked_.empty()) {
    result.recommended = first.kept_.Recommended();
    SetInterval(PointOf(request, result.recommended.layout), first.account_, first.clock_, result.recommended);
  }
  result.ranked = std::move(first.kept_.ranked_);
  for (Candidate& candidate : result.ranked) {
    SetInterval(PointOf(request, candidate.layout), first.account_, first.clock_, candidate);
  }
  result.front = std::move(first.kept_.front_);
  std::sort(result.front.begin(), result.front.end(), Before);
  return result;
}

}  // namespace

SearchResult Search(const SearchRequest& request) {
  if (request.offload_activations.value_or(false)) {
    const std::string unable = StackRefusal(request, {.offload_activations = true});
    Require(unable.empty(), "{}", unable);
  }
  SearchResult found = SearchAll(request);
  const bool possible = request.prices().prices_every_recipe() && !request.cluster.device.is_host;
  // Something fits where something was proved slower.
  if (!found.ranked.empty() || found.pruned > 0 || request.offload_activations || !possible) {
    return found;
  }
  SearchRequest more = request;
  more.offload_activations = true;
  SearchResult offloaded = SearchAll(more);
  if (offloaded.ranked.empty()) {
    return found;  // with its own reasons
  }
  for (const auto& [reason, count] : found.refused) {
    offloaded.refused[reason] += count;
  }
  offloaded.enumerated += found.enumerated;
  offloaded.pruned += found.pruned;
  offloaded.priced += found.priced;
  return offloaded;
}

std::int64_t UsualBatch(double parameters, std::int64_t sequence, int devices) {
  const double tokens = parameters < 1e9 ? 0.5e6 : parameters < 5e9 ? 1e6 : parameters < 3e10 ? 2e6 : 4e6;
  std::int64_t batch = devices;
  while (batch % 2 == 0) {
    batch /= 2;
  }
  while (static_cast<double>(batch * sequence) * std::numbers::sqrt2 < tokens) {
    batch *= 2;
  }
  return batch;
}

}  // namespace trireme
