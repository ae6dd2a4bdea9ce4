#include "planner/queries/answer_json.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "cost/step_cost.h"
#include "planner/pricing/memory_estimate.h"

namespace trireme {
namespace {

constexpr int kRowsOfPage = 40;
constexpr std::size_t kLayoutsExplained = 8;
// Traces of more are left out of the page: it would be too large to send.
constexpr std::size_t kLongestTrace = 4 << 20;

nlohmann::json AnswerOrError(const PlanSubject& subject, const PlanOptions& options) {
  try {
    return AnswerJson(subject.cluster, subject.model, AnswerPlan(subject, options));
  } catch (const Error& error) {
    return {{"error", error.what()}};
  }
}

nlohmann::json LayoutAnswers(const PlanSubject& subject, PlanOptions options, const std::string& layout) {
  options.layout = layout;
  options.fix.clear();
  options.rows = 0;
  PlanOptions explained = options;
  explained.estimate = options.tokens > 0;
  PlanOptions traced = options;
  traced.timeline = "trace";
  PlanOptions emitted = options;
  emitted.emit = "recipe,sbatch";
  nlohmann::json timeline = AnswerOrError(subject, traced);
  if (timeline.contains("files") && !timeline["files"].empty() &&
      timeline["files"][0]["text"].get_ref<const std::string&>().size() > kLongestTrace) {
    timeline = {{"error", "this timeline is too long for the page: `trireme plan --timeline FILE` writes it"}};
  }
  return {{"explanation", AnswerOrError(subject, explained)},
          {"timeline", std::move(timeline)},
          {"files", AnswerOrError(subject, emitted)}};
}

// Powers of two around the allocation, and itself: an eighth to eight times of it.
std::set<int> Allocations(int nodes, int most) {
  std::set<int> counts = {nodes};
  for (std::int64_t count = 1; count <= std::min<std::int64_t>(most, std::int64_t{8} * nodes); count *= 2) {
    if (8 * count >= nodes) {
      counts.insert(static_cast<int>(count));
    }
  }
  return counts;
}

}  // namespace

nlohmann::json AboutJson(const Cluster& cluster, const ModelConfig& model) {
  return {{"cluster", cluster.name},
          {"nodes", cluster.nodes},
          {"devices_per_node", cluster.devices_per_node},
          {"device", cluster.device.name},
          {"usable_gib", UsableMemory(cluster) / kGibi},
          {"family", model.family},
          {"layers", model.layers},
          {"hidden", model.hidden},
          {"heads", model.heads},
          {"kv_heads", model.kv_heads},
          {"ffn", model.ffn},
          {"vocabulary", model.vocabulary},
          {"sequence", model.sequence},
          {"parameters", ParameterCount(model)}};
}

nlohmann::json AnswerJson(const Cluster& cluster, const ModelConfig& model, PlanAnswer answer) {
  nlohmann::json told{
      {"about", AboutJson(cluster, model)}, {"text", std::move(answer.text)}, {"json", std::move(answer.json)},
      {"notes", std::move(answer.notes)},   {"found", answer.found},          {"files", nlohmann::json::array()}};
  for (PlanAnswer::File& file : answer.files) {
    told["files"].push_back({{"path", std::move(file.path)}, {"text", std::move(file.text)}});
  }
  return told;
}

nlohmann::json PageAnswers(const PlanSubject& subject, const PlanOptions& options) {
  PlanOptions ranking = options;
  ranking.layout.clear();
  ranking.rows = options.rows > 0 ? options.rows : kRowsOfPage;
  nlohmann::json page{{"ranking", AnswerJson(subject.cluster, subject.model, AnswerPlan(subject, ranking))},
                      {"layouts", nlohmann::json::object()},
                      {"days", nlohmann::json::object()}};
  const nlohmann::json& found = page["ranking"]["json"];
  PlanOptions same_batch = options;
  same_batch.global_batch = found.at("global_batch").get<std::int64_t>();
  const nlohmann::json& ranked = found.at("ranked");
  for (std::size_t i = 0; i < std::min(ranked.size(), kLayoutsExplained); ++i) {
    const auto layout = ranked[i].at("layout").get<std::string>();
    page["layouts"][layout] = LayoutAnswers(subject, same_batch, layout);
  }
  if (options.tokens > 0 && options.nodes > 0) {
    for (const int nodes : Allocations(options.nodes, subject.cluster.nodes)) {
      PlanOptions allocation = same_batch;
      allocation.layout.clear();
      allocation.nodes = nodes;
      allocation.rows = 1;
      page["days"][std::to_string(nodes)] = AnswerOrError(subject, allocation);
    }
  }
  return page;
}

}  // namespace trireme
