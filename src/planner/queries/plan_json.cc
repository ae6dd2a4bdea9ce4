#include "planner/queries/plan_json.h"

#include <nlohmann/json.hpp>

#include "base/units.h"
#include "planner/queries/layout_words.h"

namespace trireme {
namespace {

nlohmann::json WithDays(const Candidate& candidate, const SearchRequest& request, const RankingOptions& options) {
  nlohmann::json json = ToJsonValue(candidate);
  if (options.tokens > 0) {
    json.update(DaysJson(request, candidate, options.tokens));
  }
  return json;
}

// null when there is none.
nlohmann::json OrNull(const Candidate& candidate) {
  return candidate.seconds > 0 ? ToJsonValue(candidate) : nlohmann::json();
}

}  // namespace

nlohmann::json ToJsonValue(const Candidate& candidate) {
  const ParallelLayout& layout = candidate.layout;
  nlohmann::json json{{"layout", NamedLayout(layout)},
                      {"tensor", layout.tensor},
                      {"context", layout.context},
                      {"context_kind", Name(layout.context_kind)},
                      {"pipeline", layout.pipeline},
                      {"data", layout.data},
                      {"expert", layout.expert},
                      {"zero", layout.zero},
                      {"schedule", layout.schedule},
                      {"chunks", layout.chunks},
                      {"partition", layout.partition},
                      {"sequence_parallel", layout.sequence_parallel},
                      {"recompute", Name(layout.recompute)},
                      {"offload", Name(layout.offload)},
                      {"offload_activations", layout.offload_activations},
                      {"micro_batch", layout.micro_batch},
                      {"seconds", candidate.seconds},
                      {"interval_seconds", {candidate.low, candidate.high}},
                      {"hardware_tflops", candidate.hardware_tflops},
                      {"model_tflops", candidate.model_tflops},
                      {"mfu", candidate.mfu},
                      {"tokens_per_second", candidate.tokens_per_second},
                      {"peak_gib", candidate.peak / kGibi},
                      {"host_gib_per_node", candidate.host / kGibi},
                      {"nvme_gib_per_node", candidate.nvme / kGibi}};
  return json;
}

nlohmann::json DaysJson(const SearchRequest& request, const Candidate& candidate, double tokens) {
  const TrainingTime time = TimeOfTraining(request, candidate, tokens);
  return {{"days", time.days}, {"device_hours", time.device_hours}, {"megawatt_hours", time.megawatt_hours}};
}

nlohmann::json ToJsonValue(const LeastDevices& least) {
  return {{"devices", least.devices > 0 ? nlohmann::json(least.devices) : nlohmann::json()},
          {"too_few", least.too_few},
          {"best", OrNull(least.fastest)}};
}

nlohmann::json RankingJson(const SearchResult& result, const SearchRequest& request, const RankingOptions& options) {
  nlohmann::json json{{"parameters", ParameterCount(request.config.model)},
                      {"devices", request.devices},
                      {"cluster", request.cluster.name},
                      {"stack", request.stack.name},
                      {"calibrated", request.state.calibrated},
                      {"global_batch", request.config.batch.global},
                      {"enumerated", result.enumerated},
                      {"priced", result.priced},
                      {"pruned", result.pruned},
                      {"refused", result.refused}};
  json["recommended"] = OrNull(result.recommended);
  json["tie"] = request.tie;
  json["ranked"] = nlohmann::json::array();
  for (const Candidate& one : result.ranked) {
    json["ranked"].push_back(WithDays(one, request, options));
  }
  json["front"] = nlohmann::json::array();
  for (const Candidate& one : result.front) {
    json["front"].push_back(WithDays(one, request, options));
  }
  return json;
}

nlohmann::json ToJsonValue(const RampPlan& plan) {
  nlohmann::json json{{"days_one_layout", plan.fixed_seconds / 86'400},
                      {"days_best_layouts", plan.best_seconds / 86'400},
                      {"filling_batch", plan.filling_batch},
                      {"batches", nlohmann::json::array()}};
  for (const RampRow& row : plan.rows) {
    json["batches"].push_back({{"batch", row.batch},
                               {"samples", row.samples},
                               {"one_layout", row.divides ? OrNull(row.fixed) : nlohmann::json()},
                               {"best", OrNull(row.best)}});
  }
  return json;
}

nlohmann::json ToJsonValue(const TrainingTime& time) {
  return {{"days", time.days},
          {"days_of_steps", time.busy_days},
          {"steps", time.steps},
          {"device_hours", time.device_hours},
          {"failures", time.failures},
          {"lost_share", time.lost_share},
          {"checkpoint_seconds", time.checkpoint_seconds},
          {"checkpoint_interval", time.checkpoint_interval},
          {"megawatt_hours", time.megawatt_hours}};
}

nlohmann::json ToJsonValue(const DeadlineAnswer& answer) {
  return {{"nodes", answer.nodes > 0 ? nlohmann::json(answer.nodes) : nlohmann::json()},
          {"days", answer.days},
          {"best", OrNull(answer.best)}};
}

nlohmann::json ToJsonValue(const std::vector<ShapeProposal>& proposals) {
  nlohmann::json json = nlohmann::json::array();
  for (const ShapeProposal& one : proposals) {
    json.push_back({{"parameters", one.parameters},
                    {"layers", one.model.layers},
                    {"hidden", one.model.hidden},
                    {"ratio", static_cast<double>(one.model.hidden) / static_cast<double>(one.model.layers)},
                    {"heads", one.model.heads},
                    {"kv_heads", one.model.kv_heads},
                    {"vocabulary", one.model.vocabulary},
                    {"best", OrNull(one.best)},
                    {"idle_reason", one.idle}});
  }
  return json;
}

nlohmann::json ToJsonValue(const LongestSequence& longest) {
  return {{"tokens", longest.tokens},
          {"too_long", longest.too_long},
          {"best", OrNull(longest.best)},
          {"idle_reason", longest.idle}};
}

nlohmann::json ToJsonValue(const std::vector<PhasePlan>& plans) {
  nlohmann::json json = nlohmann::json::array();
  for (const PhasePlan& plan : plans) {
    json.push_back({{"nodes", plan.phase.nodes},
                    {"days", plan.days},
                    {"tokens", plan.tokens},
                    {"device_hours", plan.device_hours},
                    {"best", OrNull(plan.best)}});
  }
  return json;
}

}  // namespace trireme
