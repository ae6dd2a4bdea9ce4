// Why a program cannot run a layout at all.
#include <fmt/format.h>

#include <algorithm>

#include "planner/search/layout_space.h"

namespace trireme {
namespace {

template <typename Value>
bool Lists(const std::vector<Value>& list, const Value& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// Models with experts: what they cost is known for our trainer on CPUs and for programs that have an axis for them.
std::optional<NotOffered> ExpertRefusal(const SearchRequest& request) {
  const ModelConfig& model = request.config.model;
  if (!model.experts.any()) {
    return std::nullopt;
  }
  if (!request.prices().prices_every_recipe()) {
    if (request.stack.features.experts) {
      return std::nullopt;
    }
    const std::string reason = "what experts cost in this program is not known";
    return NotOffered{reason, fmt::format("model.experts = {} with '{}': {}; the nearest is --stack "
                                          "megatron-core-2024",
                                          model.experts.count, request.stack.name, reason)};
  }
  if (request.cluster.device.is_host) {
    return std::nullopt;
  }
  const std::string reason = "what experts cost on a GPU has not been measured";
  return NotOffered{reason, fmt::format("model.experts = {} on '{}': {}; train runs there, and CPUs can be planned",
                                        model.experts.count, request.cluster.name, reason)};
}

}  // namespace

std::string OffloadRefusal(const SoftwareStack& stack, int zero, Offload offload) {
  if (stack.policy.staged_offload) {
    return "";
  }
  if (offload == Offload::kFull && !ZeroShards(zero).parameters) {
    return fmt::format("'{}' keeps weights on the host under zero=3 only, not under zero={}", stack.name, zero);
  }
  return offload == Offload::kOptimizer && !ZeroShards(zero).optimizer
             ? fmt::format("'{}' keeps optimizer state on the host under zero=1 and above, not under zero=0",
                           stack.name)
             : "";
}

std::string StackRefusal(const SearchRequest& request, const ParallelLayout& layout) {
  const SoftwareStack& stack = request.stack;
  const StackFeatures& features = stack.features;
  const char* const instead =
      features.sequence_parallel ? "; it cuts them over the tensor group: use sp instead of cp" : "";
  if (layout.context > 1 && !features.context) {
    return fmt::format("cp={}: '{}' does not cut sequences over ranks of their own{}", layout.context, stack.name,
                       instead);
  }
  if (layout.tensor > 1 && !features.tensor) {
    return fmt::format("tp={}: '{}' has no tensor parallelism", layout.tensor, stack.name);
  }
  if (layout.pipeline > 1 && !features.pipeline) {
    return fmt::format("pp={}: '{}' has no pipelines", layout.pipeline, stack.name);
  }
  if (layout.expert > 1 && !features.experts) {
    return fmt::format("ep={}: '{}' has no expert axis", layout.expert, stack.name);
  }
  if (layout.expert > 1 && layout.expert_replicas() == 0) {
    return fmt::format("ep={}: it does not divide the {} ranks of a stage", layout.expert,
                       layout.tensor * layout.replicas());
  }
  if (layout.sequence_parallel && !features.sequence_parallel) {
    return fmt::format("sp: '{}' has no sequence parallelism", stack.name);
  }
  // Our trainer plays every schedule, also one from a file; unknown names are told apart where they are looked up.
  if (layout.pipeline > 1 && !stack.policy.any_schedule && !Lists(features.schedules, layout.schedule)) {
    return fmt::format("schedule={}: '{}' does not have it", layout.schedule, stack.name);
  }
  if (layout.replicas() > 1 && !Lists(features.zero, layout.zero) && !stack.policy.any_schedule) {
    return fmt::format("zero={}: '{}' does not have it", layout.zero, stack.name);
  }
  const bool every_recipe = request.prices().prices_every_recipe();
  if ((layout.whole_below > 0 || layout.reduce != WireFormat::kExact || layout.gather != WireFormat::kExact) &&
      !every_recipe) {
    return fmt::format("whole, reduce and gather: what '{}' does about them is not known", stack.name);
  }
  if (layout.offload_activations && !every_recipe) {
    return fmt::format("offload_activations: what '{}' does about them is part of its name", stack.name);
  }
  return OffloadRefusal(stack, layout.zero, layout.offload);
}

std::optional<NotOffered> TrainerRefusal(const SearchRequest& request, const ParallelLayout& layout) {
  if (std::optional<NotOffered> refusal = ExpertRefusal(request)) {
    return refusal;
  }
  return request.prices().prices_every_recipe() ? FindNotOffered(ConfigOf(request, layout)) : std::nullopt;
}

}  // namespace trireme
