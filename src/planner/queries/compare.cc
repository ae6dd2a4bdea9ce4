#include "planner/queries/compare.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "planner/queries/layout_words.h"
#include "planner/search/at_most.h"

namespace trireme {
namespace {

// The request under another program.
SearchRequest Under(const SearchRequest& request, const SoftwareStack& stack, const StackState& state) {
  RunConfig config = request.config;
  const bool every_recipe = ChoosePrices(request.cluster, state, DTypeOf(config)).prices_every_recipe();
  const bool compresses = config.optimizer.powersgd_rank > 0 && stack.time.power_sgd_seconds > 0;
  const bool fused = config.optimizer.kind != OptimizerKind::kAdafactor;
  if (!every_recipe) {
    config.optimizer.powersgd_rank = 0;
    config.optimizer.kind = OptimizerKind::kAdamW;
  }
  return {.cluster = request.cluster,
          .stack = stack,
          .state = state,
          .config = config,
          .devices = request.devices,
          .ramp_unit = request.ramp_unit,
          .most_tensor = request.most_tensor,
          .most_context = request.most_context,
          .most_micro_batch = request.most_micro_batch,
          .headroom = request.headroom,
          .keep = 1,
          .threads = request.threads,
          .tensor = request.tensor,
          .context = request.context,
          .pipeline = request.pipeline,
          .data = request.data,
          .expert = request.expert,
          .micro_batch = request.micro_batch,
          .zero = request.zero,
          .chunks = request.chunks,
          .context_kind = request.context_kind,
          .schedule = request.schedule,
          .recompute = request.recompute,
          .partition = request.partition,
          .offload = request.offload,
          .sequence_parallel = request.sequence_parallel,
          .offload_activations = request.offload_activations,
          .rest = request.rest,
          .tie = state.paired_spread,
          .power_sgd = !every_recipe && compresses,
          .fused_optimizer = every_recipe || fused,
          .factored_moments = !every_recipe && !fused};
}

}  // namespace

std::vector<Compared> Compare(const SearchRequest& request, const std::vector<SoftwareStack>& stacks,
                              const StateOf& state_of, const AskedLayout& asked) {
  std::vector<Compared> compared;
  for (const SoftwareStack& stack : stacks) {
    const StackState state = state_of(stack);
    const SearchRequest one = Under(request, stack, state);
    Compared result{.stack = stack.name};
    try {
      if (!asked.layout.empty()) {
        const CompletedLayout completed = CompleteLayout(one, asked);
        SearchRequest working = one;
        working.devices = completed.devices;
        result.best = Price(working, completed.layout);
      } else {
        const SearchResult found = SearchAtMost(one).found;
        result.best = found.ranked.empty() ? std::nullopt : std::optional<Candidate>(found.recommended);
        result.reason = result.best ? "" : "no layout fits";
      }
    } catch (const Error& error) {
      result.reason = error.what();
    }
    compared.push_back(std::move(result));
  }
  return compared;
}

std::string ToText(const std::vector<Compared>& compared) {
  std::string text = fmt::format("{:<22} {:>10} {:>19} {:>9} {:>9} {:>7}  {}\n", "stack", "s/step", "8 of 10 cases",
                                 "tokens/s", "TFLOP/s", "GiB", "layout");
  for (const Compared& one : compared) {
    if (!one.best) {
      text += fmt::format("{:<22} {}\n", one.stack, one.reason);
      continue;
    }
    const Candidate& best = *one.best;
    text += fmt::format("{:<22} {:>10.3f} {:>9.3f} {:>9.3f} {:>9.0f} {:>9.1f} {:>7.1f}  {}\n", one.stack, best.seconds,
                        best.low, best.high, best.tokens_per_second, best.model_tflops, best.peak / kGibi,
                        NamedLayout(best.layout));
  }
  return text;
}

nlohmann::json ToJsonValue(const std::vector<Compared>& compared) {
  nlohmann::json json = nlohmann::json::array();
  for (const Compared& one : compared) {
    nlohmann::json entry{{"stack", one.stack}};
    if (one.best) {
      entry.update({{"layout", NamedLayout(one.best->layout)},
                    {"seconds", one.best->seconds},
                    {"interval_seconds", {one.best->low, one.best->high}},
                    {"tokens_per_second", one.best->tokens_per_second},
                    {"model_tflops", one.best->model_tflops},
                    {"peak_gib", one.best->peak / kGibi}});
    } else {
      entry["reason"] = one.reason;
    }
    json.push_back(entry);
  }
  return json;
}

}  // namespace trireme
