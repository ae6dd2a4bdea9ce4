#include "planner/search/layout_space.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.h"
#include "planner/pricing/memory_estimate.h"

namespace trireme {
namespace {

std::vector<int> Divisors(std::int64_t value, std::int64_t most) {
  std::vector<int> divisors;
  for (std::int64_t candidate = 1; candidate <= std::min(value, most); ++candidate) {
    if (value % candidate == 0) {
      divisors.push_back(static_cast<int>(candidate));
    }
  }
  return divisors;
}

template <typename Value>
bool Allows(const std::optional<Value>& fixed, const Value& value) {
  return !fixed || *fixed == value;
}

// The degrees of a branch.
struct Axes {
  int tensor = 1;
  int context = 1;
  ContextKind kind = ContextKind::kAllGather;
  int pipeline = 1;
  int data = 1;
  int expert = 1;
  int expert_tensor = 0;

  ParallelLayout Layout(const ParallelLayout& rest) const {
    ParallelLayout layout = rest;
    layout.tensor = tensor;
    layout.context = context;
    layout.context_kind = kind;
    layout.pipeline = pipeline;
    layout.data = data;
    layout.expert = expert;
    layout.expert_tensor = expert_tensor;
    return layout;
  }
};

// What is chosen besides the axes; equal for all of them.
struct Choice {
  std::string schedule;
  int chunks = 1;
  int zero = 0;
  bool sequence_parallel = false;
  std::string recompute;
  std::string offload;
};

template <typename Value>
bool Offers(const std::vector<Value>& list, const Value& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// What a search tries of a key: all that the program offers, or what is held. A value that is held need not be among
// those that a search tries where the program takes any.
template <typename Value>
std::vector<Value> ValuesOf(const std::vector<Value>& offered, const std::optional<Value>& held, bool takes_any) {
  if (!held) {
    return offered;
  }
  return takes_any || Offers(offered, *held) ? std::vector<Value>{*held} : std::vector<Value>{};
}

std::vector<int> ChunksOf(const SearchRequest& request, const std::string& schedule) {
  const ScheduleKind* kind = FindScheduleKind(schedule);
  const int least = kind == nullptr ? 1 : kind->least_chunks;
  const int most = kind == nullptr ? request.chunks.value_or(1) : kind->most_chunks;
  if (request.chunks) {
    return *request.chunks >= least && *request.chunks <= most ? std::vector<int>{*request.chunks} : std::vector<int>{};
  }
  std::vector<int> chunks;
  for (int count = least; count <= std::min(most, std::max(request.stack.features.most_chunks, least)); ++count) {
    chunks.push_back(count);
  }
  return chunks;
}

std::vector<Choice> Choices(const SearchRequest& request) {
  const StackFeatures& features = request.stack.features;
  const bool any = request.stack.policy.any_schedule;
  std::vector<Choice> choices;
  for (const std::string& schedule : ValuesOf(features.schedules, request.schedule, any)) {
    for (const int chunks : ChunksOf(request, schedule)) {
      for (const int zero : ValuesOf(features.zero, request.zero, any)) {
        for (const bool parallel : {false, true}) {
          for (const std::string& recompute : ValuesOf(features.recompute, request.recompute, true)) {
            for (const std::string& offload : ValuesOf(request.offloads(), request.offload, true)) {
              const bool wanted = Allows(request.sequence_parallel, parallel) &&
                                  (!parallel || features.sequence_parallel) &&
                                  OffloadRefusal(request.stack, zero, FromWord<Offload>("offload", offload)).empty();
              if (wanted) {
                choices.push_back({schedule, chunks, zero, parallel, recompute, offload});
              }
            }
          }
        }
      }
    }
  }
  return choices;
}

// What micro batch times data must divide: the global batch, and every batch of the ramp.
std::int64_t BatchUnit(const SearchRequest& request) {
  return std::gcd(request.config.batch.global, request.ramp_unit);
}

// Why no layout with these axes can run; "" when some can.
std::string AxesRefusal(const SearchRequest& request, const Axes& axes) {
  const auto [tensor, context, context_kind, pipeline, data, expert, expert_tensor] = axes;
  const ModelConfig& model = request.config.model;
  const int most_tensor = request.most_tensor > 0 ? request.most_tensor : request.cluster.devices_per_node;
  if (tensor > most_tensor) {
    return "tensor degree above the limit";
  }
  if (tensor > 1 && !request.stack.features.tensor) {
    return "the program has no tensor parallelism";
  }
  if (pipeline > 1 && !request.stack.features.pipeline) {
    return "the program has no pipelines";
  }
  if (context > 1 && !request.stack.features.context) {
    return "the program does not cut sequences over ranks";
  }
  if (expert > 1 && !request.stack.features.experts) {
    return "the program has no expert axis";
  }
  if (expert > 1 && (!model.experts.any() || model.experts.count % expert != 0)) {
    return "experts not divisible by the expert degree";
  }
  const int width = expert_tensor > 0 ? expert_tensor : tensor;
  const bool cuts = model.experts.any() ? model.experts.ffn % width == 0 && model.experts.shared_ffn % tensor == 0
                                        : model.ffn % tensor == 0;
  if (model.heads % tensor != 0 || model.kv_heads % tensor != 0 || !cuts) {
    return "heads or feed-forward not divisible by the tensor degree";
  }
  if (context > 1 && model.sequence % (2 * context) != 0) {
    return "sequence not divisible by the context degree";
  }
  if (context > 1 && context_kind == ContextKind::kUlysses &&
      (model.heads % (tensor * context) != 0 || model.kv_heads % (tensor * context) != 0)) {
    return "heads not divisible by tensor x context (Ulysses)";
  }
  if (context > 1 && context_kind == ContextKind::kUlyssesRing &&
      HeadRanks(model, {.tensor = tensor, .context = context, .context_kind = context_kind}) == 1) {
    return "no part of the context axis divides the heads (Ulysses and ring)";
  }
  if (pipeline > model.modules()) {
    return "more stages than modules";
  }
  if (request.config.batch.global % data != 0) {
    return "global batch not divisible by the data degree";
  }
  if (BatchUnit(request) % data != 0) {
    return "batches of the ramp not divisible by the data degree";
  }
  return "";
}

// Refusals and duplicates that the choice brings: layouts equal to another one are left to that one.
std::string ChoiceRefusal(const ParallelLayout& layout) {
  if (layout.pipeline == 1 && layout.schedule != ParallelLayout{}.schedule) {
    return "one stage needs no other schedule";
  }
  if (layout.expert > 1 && layout.tensor > 1 && !layout.sequence_parallel) {
    return "tensor ranks with an expert axis have tokens of their own (sequence parallelism)";
  }
  if (layout.sequence_parallel && layout.tensor == 1) {
    return "sequence parallelism needs a tensor axis";
  }
  if (layout.recompute == Recompute::kSelective && SplitsBackward(layout.schedule)) {
    return "selective recomputation equals light under a split backward";
  }
  if (ZeroShards(layout.zero).optimizer && layout.replicas() == 1) {
    return "ZeRO needs a data axis";
  }
  return "";
}

class Branches {
 public:
  explicit Branches(const SearchRequest& request) : request_(request), choices_(Choices(request)) {}

  void AddAxes(const Axes& axes) {
    const std::string refusal = AxesRefusal(request_, axes);
    const auto partitions = static_cast<std::int64_t>(request_.stack.features.partitions.size());
    if (!refusal.empty()) {
      const std::int64_t micro_batches = std::max<std::int64_t>(
          1,
          static_cast<std::int64_t>(
              Divisors(std::max<std::int64_t>(BatchUnit(request_) / axes.data, 1), request_.most_micro_batch).size()));
      branches_.push_back({.layout = axes.Layout(request_.rest),
                           .leaves = static_cast<std::int64_t>(choices_.size()) * partitions * micro_batches,
                           .refusal = refusal});
      return;
    }
    for (const Choice& choice : choices_) {
      AddChoice(axes, choice);
    }
  }

  std::vector<LayoutBranch> Take() { return std::move(branches_); }

 private:
  void AddChoice(const Axes& axes, const Choice& choice) {
    ParallelLayout layout = axes.Layout(request_.rest);
    layout.schedule = choice.schedule;
    layout.chunks = choice.chunks;
    layout.zero = choice.zero;
    layout.sequence_parallel = choice.sequence_parallel;
    layout.recompute = FromWord<Recompute>("recompute", choice.recompute);
    layout.offload = FromWord<Offload>("offload", choice.offload);
    layout.offload_activations = request_.offload_activations.value_or(false);
    LayoutBranch branch{.layout = layout};
    for (const int micro_batch : Divisors(BatchUnit(request_) / axes.data, request_.most_micro_batch)) {
      if (Allows(request_.micro_batch, micro_batch)) {
        branch.micro_batches.push_back(micro_batch);
      }
    }
    branch.leaves = static_cast<std::int64_t>(branch.micro_batches.size());
    branch.refusal = ChoiceRefusal(layout);
    if (branch.refusal.empty()) {
      const std::optional<NotOffered> refusal = TrainerRefusal(request_, layout);
      branch.refusal = refusal ? refusal->reason : "";
    }
    std::set<std::vector<std::int64_t>> seen;
    for (const std::string& partition : ValuesOf(request_.stack.features.partitions, request_.partition, true)) {
      LayoutBranch cut = branch;
      cut.layout.partition = partition;
      if (cut.refusal.empty()) {
        cut.refusal = PartitionRefusal(cut.layout, seen);
      }
      branches_.push_back(std::move(cut));
    }
  }

  std::string PartitionRefusal(const ParallelLayout& layout, std::set<std::vector<std::int64_t>>& seen) const {
    if (layout.virtual_stages() > request_.config.model.modules()) {
      return "more stages than modules";
    }
    if (layout.partition == "uniform" && request_.state.policy.strict_partition &&
        request_.config.model.layers % layout.virtual_stages() != 0) {
      return "layers not divisible by the stages (uniform partition)";
    }
    if (request_.partition && !Offers(request_.stack.features.partitions, layout.partition)) {
      try {
        BlocksOfStages(PointOf(request_, layout));
      } catch (const Error& error) {
        return error.what();  // a list for another number of stages
      }
    }
    const PlanPoint point = PointOf(request_, layout);
    return seen.insert(BlocksOfStages(point)).second ? "" : "partition equal to another";
  }

  const SearchRequest& request_;
  std::vector<Choice> choices_;
  std::vector<LayoutBranch> branches_;
};

// Context degrees that a search considers: those asked for, where the program has the axis.
std::vector<int> ContextDegrees(const SearchRequest& request, int replicas) {
  if (request.context) {
    return replicas % *request.context == 0 ? std::vector<int>{*request.context} : std::vector<int>{};
  }
  ParallelLayout cut;
  cut.context = 2;
  const bool offered = StackRefusal(request, cut).empty();
  return Divisors(replicas, offered ? request.most_context : 1);
}

// Programs known by their publications have one kind of exchange.
std::vector<ContextKind> ContextKinds(const SearchRequest& request, int context) {
  if (request.context_kind) {
    return {*request.context_kind};
  }
  if (context == 1 || !request.prices().prices_every_recipe()) {
    return {ContextKind::kAllGather};
  }
  return {ContextKind::kAllGather, ContextKind::kRing, ContextKind::kUlysses, ContextKind::kUlyssesRing};
}

// Degrees of the expert axis: one that is asked for, or each that divides the experts and a stage's ranks.
std::vector<int> ExpertDegrees(const SearchRequest& request, int ranks) {
  const ModelConfig& model = request.config.model;
  if (request.expert) {
    return ranks % *request.expert == 0 ? std::vector<int>{*request.expert} : std::vector<int>{};
  }
  if (!model.experts.any() || !request.stack.features.experts) {
    return {1};
  }
  return Divisors(std::gcd(model.experts.count, static_cast<std::int64_t>(ranks)), ranks);
}

}  // namespace

std::vector<LayoutBranch> LayoutBranches(const SearchRequest& request) {
  Branches branches(request);
  for (const int tensor : Divisors(request.devices, request.devices)) {
    for (const int pipeline : Divisors(request.devices / tensor, request.devices)) {
      const int replicas = request.devices / tensor / pipeline;
      for (const int context : ContextDegrees(request, replicas)) {
        const int data = replicas / context;
        if (!Allows(request.tensor, tensor) || !Allows(request.pipeline, pipeline) || !Allows(request.data, data)) {
          continue;
        }
        const int width = request.stack.features.experts && request.config.model.experts.any() ? 1 : 0;
        for (const ContextKind kind : ContextKinds(request, context)) {
          for (const int expert : ExpertDegrees(request, tensor * replicas)) {
            branches.AddAxes({tensor, context, kind, pipeline, data, expert, width});
          }
        }
      }
    }
  }
  return branches.Take();
}

std::string RefusalOf(const SearchRequest& request, const ParallelLayout& layout) {
  const std::int64_t micro_batches = BatchUnit(request) / (static_cast<std::int64_t>(layout.micro_batch) * layout.data);
  const ScheduleKind* kind = FindScheduleKind(layout.schedule);
  if (kind != nullptr && kind->rounds_of_micro_batches && micro_batches % layout.pipeline != 0) {
    return "micro batches not divisible by the stages (" + kind->name + ")";
  }
  if (layout.sequence_parallel &&
      (layout.micro_batch * request.config.model.sequence / layout.context) % layout.tensor != 0) {
    return "tokens not divisible by the tensor degree (sequence parallelism)";
  }
  const bool keys_are_here = layout.context_kind == ContextKind::kUlysses ||
                             (layout.context_kind == ContextKind::kAllGather && request.cluster.device.is_host);
  if (layout.context > 1 && request.prices().prices_every_recipe() && !request.state.time.flash && !keys_are_here) {
    return "plain attention needs all keys of a query at once";
  }
  return "";
}

}  // namespace trireme
