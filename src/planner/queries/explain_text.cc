#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/units.h"
#include "planner/pricing/interval.h"
#include "planner/queries/context_figure.h"
#include "planner/queries/explain.h"
#include "planner/queries/layout_words.h"
#include "planner/queries/plan_text.h"

namespace trireme {
namespace {

struct NamedTerm {
  const char* name;
  double StepTerms::*member;
  const char* note;
};
constexpr NamedTerm kTerms[] = {
    {"matrix products", &StepTerms::matmul, "of the slowest stage, recomputation included"},
    {"attention", &StepTerms::attention, "scores and values"},
    {"element-wise kernels", &StepTerms::memory, "memory bandwidth"},
    {"tensor collectives", &StepTerms::tensor, "exposed"},
    {"context collectives", &StepTerms::context, "keys and values, or heads, that attention waits for"},
    {"expert exchanges", &StepTerms::experts, "rows to the ranks of their experts and back, exposed"},
    {"layer overhead", &StepTerms::overhead, "launches, host"},
    {"embedding and logits", &StepTerms::head, "where the slowest stage holds them"},
    {"gradient accumulation", &StepTerms::accumulate, "each micro batch"},
    {"shard traffic", &StepTerms::gather, "ZeRO 2 and 3, exposed"},
    {"bubble and messages", &StepTerms::bubble, "the pipeline fills and drains"},
    {"data collectives", &StepTerms::data, "exposed"},
    {"gradient compression", &StepTerms::compress, "PowerSGD"},
    {"optimizer", &StepTerms::optimizer, "update of owned parameters"},
    {"offload", &StepTerms::offload, "host link, host memory"},
    {"fixed cost of a step", &StepTerms::fixed, "calibrated"},
    {"slow site", &StepTerms::slowdown, "revision of the stack file"},
};

std::string MemoryTable(const MemoryEstimate& memory) {
  std::string text = "memory, GiB (*: the fullest stage)\n";
  text += "stage  weights   grads fp32acc   optim    kept scratch  logits messages context fragment   total\n";
  for (std::size_t stage = 0; stage < memory.stages.size(); ++stage) {
    const StageMemory& m = memory.stages[stage];
    text += fmt::format(
        "{:>5} {:>8.2f} {:>7.2f} {:>7.2f} {:>7.2f} {:>7.2f} {:>7.2f} {:>7.2f} {:>8.2f} {:>7.2f} {:>8.2f} {:>7.2f}{}\n",
        stage, m.weights / kGibi, m.gradients / kGibi, m.accumulation / kGibi, m.optimizer / kGibi,
        m.activations / kGibi, m.scratch / kGibi, m.logits / kGibi, m.messages / kGibi, m.fixed / kGibi,
        m.fragmentation / kGibi, m.total() / kGibi, static_cast<int>(stage) == memory.worst ? " *" : "");
  }
  if (memory.host_per_node > 0) {
    text +=
        fmt::format("host memory: {:.1f} GiB per node{}\n", memory.host_per_node / kGibi,
                    memory.nvme_per_node > 0 ? fmt::format(", NVMe: {:.1f} GiB", memory.nvme_per_node / kGibi) : "");
  }
  return text;
}

std::string BlocksText(const std::vector<std::int64_t>& blocks) {
  std::string text;
  for (const std::int64_t own : blocks) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", own);
  }
  return text;
}

// The context axis against the others, and which of them is ahead.
std::string InsteadText(const Explanation& explanation) {
  const double own = explanation.estimate.seconds;
  const int degree = explanation.candidate.layout.context;
  std::string text = fmt::format("\nthe {} context ranks as ranks of another axis\n", degree);
  const AxisTrade* best = nullptr;
  for (const AxisTrade& trade : explanation.instead) {
    text += fmt::format("  {:<9}", trade.axis);
    if (trade.seconds > 0) {
      text += fmt::format(" {:>8.2f} s ({:+.1f} %), {:.1f} GiB  {}", trade.seconds, 100 * (trade.seconds / own - 1),
                          trade.peak / kGibi, NamedLayout(trade.layout));
    }
    text += trade.refusal.empty() ? "\n" : fmt::format("  {}\n", trade.refusal);
    if (trade.refusal.empty() && (best == nullptr || trade.seconds < best->seconds)) {
      best = &trade;
    }
  }
  if (best == nullptr) {
    return text + "  context is the only axis of these that takes the ranks\n";
  }
  const double ahead = best->seconds / own - 1;
  return text + (ahead >= 0 ? fmt::format("  context is {:.1f} % ahead of {}, the next\n", 100 * ahead, best->axis)
                            : fmt::format("  {} is {:.1f} % ahead of context\n", best->axis, -100 * ahead));
}

}  // namespace

std::string ToText(const Explanation& explanation, const SearchRequest& request, double tokens) {
  const Candidate& candidate = explanation.candidate;
  const StepEstimate& estimate = explanation.estimate;
  std::string text = RequestText(request) + Wrapped("layout    ", NamedLayout(candidate.layout));
  text += fmt::format("  batch     {} samples: {} micro batches of {} on {} data ranks\n",
                      Grouped(request.config.batch.global),
                      Grouped(request.config.batch.global / candidate.layout.micro_batch / candidate.layout.data),
                      candidate.layout.micro_batch, candidate.layout.data);
  text += CandidateText(candidate, request, tokens);
  text += fmt::format("  device    {:.1f} TFLOP/s, {:.1f} with recomputation\n", candidate.model_tflops,
                      candidate.hardware_tflops);
  text += Wrapped("  blocks    ", BlocksText(estimate.blocks) + " by stage");
  text += fmt::format(
      "  fits      with a probability of {:.0f} %\n\n",
      100 * FitProbability(estimate.memory.peak, UsableMemory(request.cluster), request.state.memory_spread));
  text += "where the seconds go (critical path: the slowest stage, then what follows it)\n";
  for (const NamedTerm& term : kTerms) {
    const double seconds = estimate.terms.*term.member;
    if (seconds > 1e-9) {
      text += fmt::format("  {:<22} {:>9.3f} s {:>5.1f} %  {}\n", term.name, seconds, 100 * seconds / estimate.seconds,
                          term.note);
    }
  }
  if (estimate.data_hidden > 0) {
    text += fmt::format("  hidden behind compute: {:.3f} s of data collectives\n", estimate.data_hidden);
  }
  text += fmt::format("  within the products: {:.3f} s lost to partly filled tiles and waves\n", explanation.wave_loss);
  text += fmt::format("  slowest stage {}: {:.1f} % above the mean; one message {:.2f} ms\n\n", estimate.slowest,
                      100 * (estimate.slowest_share - 1), 1e3 * estimate.message);
  text += MemoryTable(estimate.memory);
  if (request.prices().prices_every_recipe()) {
    text += ContextFigure(PointOf(request, candidate.layout));
  }
  if (!explanation.instead.empty()) {
    text += InsteadText(explanation);
  }
  if (!explanation.warnings.empty()) {
    text += "\nwarnings\n";
    for (const std::string& warning : explanation.warnings) {
      text += Wrapped("  ", warning);
    }
  }
  text += "\nsingle changes that would gain\n";
  for (std::size_t i = 0; i < explanation.changes.size() && i < 5; ++i) {
    const SingleChange& change = explanation.changes[i];
    text += fmt::format("  {:>5.1f} %  {:<28} {:.2f} s, {:.1f} GiB\n", 100 * change.gain, change.what,
                        change.candidate.seconds, change.candidate.peak / kGibi);
    text += Wrapped("           ", NamedLayout(change.candidate.layout));
  }
  if (explanation.changes.empty()) {
    text += "  none that fits\n";
  }
  return text;
}

std::string ToJson(const Explanation& explanation, const SearchRequest& request) {
  const StepEstimate& estimate = explanation.estimate;
  const ParallelLayout& own = explanation.candidate.layout;
  nlohmann::json json{{"layout", NamedLayout(own)},
                      {"parameters", ParameterCount(request.config.model)},
                      {"devices", request.devices},
                      {"cluster", request.cluster.name},
                      {"stack", request.stack.name},
                      {"global_batch", request.config.batch.global},
                      {"micro_batches", request.config.batch.global / own.micro_batch / own.data},
                      {"seconds", estimate.seconds},
                      {"interval_seconds", {estimate.low, estimate.high}},
                      {"hardware_tflops", explanation.candidate.hardware_tflops},
                      {"model_tflops", explanation.candidate.model_tflops},
                      {"mfu", explanation.candidate.mfu},
                      {"tokens_per_second", explanation.candidate.tokens_per_second},
                      {"blocks", estimate.blocks},
                      {"peak_gib", estimate.memory.peak / kGibi},
                      {"fit_probability", FitProbability(estimate.memory.peak, UsableMemory(request.cluster),
                                                         request.state.memory_spread)},
                      {"usable_gib", UsableMemory(request.cluster) / kGibi},
                      {"host_gib_per_node", estimate.memory.host_per_node / kGibi},
                      {"nvme_gib_per_node", estimate.memory.nvme_per_node / kGibi},
                      {"slowest_stage", estimate.slowest},
                      {"misaligned_heads_seconds", explanation.misalignment},
                      {"tile_and_wave_seconds", explanation.wave_loss},
                      {"warnings", explanation.warnings}};
  for (const AxisTrade& trade : explanation.instead) {
    json["instead_of_context"].push_back({{"axis", trade.axis},
                                          {"layout", NamedLayout(trade.layout)},
                                          {"seconds", trade.seconds},
                                          {"peak_gib", trade.peak / kGibi},
                                          {"refusal", trade.refusal}});
  }
  for (const NamedTerm& term : kTerms) {
    json["seconds_by_cause"][term.name] = estimate.terms.*term.member;
  }
  for (const StageMemory& m : estimate.memory.stages) {
    json["stages"].push_back({{"weights", m.weights},
                              {"gradients", m.gradients},
                              {"accumulation", m.accumulation},
                              {"optimizer", m.optimizer},
                              {"activations", m.activations},
                              {"scratch", m.scratch},
                              {"logits", m.logits},
                              {"messages", m.messages},
                              {"context", m.fixed},
                              {"fragmentation", m.fragmentation},
                              {"host", m.host},
                              {"total", m.total()}});
  }
  json["single_changes"] = nlohmann::json::array();
  for (const SingleChange& change : explanation.changes) {
    json["single_changes"].push_back({{"what", change.what},
                                      {"layout", NamedLayout(change.candidate.layout)},
                                      {"seconds", change.candidate.seconds},
                                      {"gain", change.gain}});
  }
  return JsonText(json, {.indent = 2}) + "\n";
}

}  // namespace trireme
