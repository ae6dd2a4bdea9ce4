#include "planner/queries/plan_question.h"

#include <map>
#include <nlohmann/json.hpp>
#include <variant>

#include "base/error.h"
#include "base/json_text.h"
#include "planner/queries/answer_json.h"
#include "planner/queries/model_shape.h"
#include "planner/queries/plan_answer.h"
#include "run/run_config.h"

namespace trireme {
namespace {

using Option = std::variant<int*, std::int64_t*, double*, bool*, std::string*>;

std::map<std::string, Option> OptionsOf(PlanOptions& plan, ShapeOptions& shape) {
  return {{"family", &shape.family},
          {"layers", &shape.layers},
          {"hidden", &shape.hidden},
          {"heads", &shape.heads},
          {"kv-heads", &shape.kv_heads},
          {"ffn", &shape.ffn},
          {"vocabulary", &shape.vocabulary},
          {"sequence", &shape.sequence},
          {"nodes", &plan.nodes},
          {"gpus", &plan.gpus},
          {"spare-nodes", &plan.spare_nodes},
          {"phases", &plan.phases},
          {"global-batch", &plan.global_batch},
          {"tokens", &plan.tokens},
          {"dtype", &plan.dtype},
          {"optimizer", &plan.optimizer},
          {"moments", &plan.moments},
          {"attention", &plan.attention},
          {"accumulate", &plan.accumulate},
          {"launch-blocking", &plan.launch_blocking},
          {"at-most", &plan.at_most},
          {"powersgd", &plan.power_sgd_rank},
          {"max-tensor", &plan.most_tensor},
          {"max-micro-batch", &plan.most_micro_batch},
          {"headroom", &plan.headroom},
          {"fix", &plan.fix},
          {"deadline", &plan.deadline},
          {"allocation", &plan.allocation},
          {"rows", &plan.rows},
          {"layout", &plan.layout},
          {"layout-defaults", &plan.layout_defaults},
          {"timeline", &plan.timeline},
          {"sequences", &plan.sequences},
          {"ramp", &plan.ramp},
          {"estimate", &plan.estimate},
          {"max-size", &plan.max_size},
          {"max-sequence", &plan.max_sequence},
          {"node-schedule", &plan.node_schedule},
          {"max-context", &plan.most_context},
          {"search-shape", &plan.search_shape},
          {"criteria", &plan.criteria},
          {"emit", &plan.emit},
          {"out", &plan.out}};
}

// Numbers must be above 0, as on the command line, where `may_be_zero` does not say otherwise.
void SetOption(const std::string& name, const nlohmann::json& value, const Option& option) {
  const bool may_be_zero = name == "spare-nodes" || name == "headroom";
  if (auto* const* flag = std::get_if<bool*>(&option)) {
    Require(value.is_boolean(), "option '{}' must be true or false, not {}", name, JsonText(value));
    **flag = value.get<bool>();
  } else if (auto* const* text = std::get_if<std::string*>(&option)) {
    Require(value.is_string(), "option '{}' must be a text, not {}", name, JsonText(value));
    **text = value.get<std::string>();
  } else {
    Require(value.is_number() && (value.get<double>() > 0 || (may_be_zero && value.get<double>() == 0)),
            "option '{}' must be a number above 0, not {}", name, JsonText(value));
    if (auto* const* real = std::get_if<double*>(&option)) {
      **real = value.get<double>();
      return;
    }
    auto* const* small = std::get_if<int*>(&option);
    const double most = small != nullptr ? 2147483647.0 : 1e15;
    Require(value.is_number_integer() && value.get<double>() <= most,
            "option '{}' must be a whole number of at most {:.0f}, not {}", name, most, JsonText(value));
    if (small != nullptr) {
      **small = value.get<int>();
    } else {
      **std::get_if<std::int64_t*>(&option) = value.get<std::int64_t>();
    }
  }
}

void ReadOptions(const nlohmann::json& given, PlanOptions& plan, ShapeOptions& shape) {
  const std::map<std::string, Option> known = OptionsOf(plan, shape);
  for (const auto& [name, value] : given.items()) {
    const auto found = known.find(name);
    Require(found != known.end(), "a question has no option '{}'", name);
    SetOption(name, value, found->second);
  }
}

ModelConfig ReadModel(const nlohmann::json& model, const ShapeOptions& shape, const PlanOptions& plan) {
  if (model.contains("config")) {
    const ModelConfig named = ParseModelShape(model.at("config").get<std::string>(), "config.json");
    return ModelOfShape(&named, shape);
  }
  if (model.contains("recipe")) {
    const ModelConfig named = ParseRecipe(model.at("recipe").get<std::string>(), "the model's file", {}).config.model;
    return ModelOfShape(&named, shape);
  }
  Require((shape.layers > 0 && shape.hidden > 0 && shape.heads > 0) || plan.SearchesShapes(),
          "name a model or its shape (layers, hidden, heads)");
  return ModelOfShape(nullptr, shape);
}

nlohmann::json Answered(const nlohmann::json& question) {
  PlanOptions plan;
  ShapeOptions shape;
  ReadOptions(question.value("options", nlohmann::json::object()), plan, shape);
  plan.threads = 1;
  RequireConsistent(plan);
  const Cluster cluster = ParseCluster(question.at("cluster").get<std::string>(), "the cluster's file");
  const SoftwareStack stack = ParseStack(question.at("stack").get<std::string>(), "the stack's file");
  const ModelConfig model = ReadModel(question.at("model"), shape, plan);
  if (question.value("describe", false)) {
    return {{"about", AboutJson(cluster, model)}};
  }
  const PlanSubject subject{.cluster = cluster, .stack = stack, .model = model, .compared = {}};
  return AnswerJson(cluster, model, AnswerPlan(subject, plan));
}

}  // namespace

std::vector<std::string> PlanOptionNames() {
  PlanOptions plan;
  ShapeOptions shape;
  std::vector<std::string> names;
  for (const auto& [name, option] : OptionsOf(plan, shape)) {
    names.push_back(name);
  }
  return names;
}

bool SetPlanOption(const std::string& name, const std::string& text, PlanOptions& plan, ShapeOptions& shape) {
  const std::map<std::string, Option> known = OptionsOf(plan, shape);
  const auto found = known.find(name);
  if (found == known.end()) {
    return false;
  }
  nlohmann::json value = text;
  if (std::holds_alternative<bool*>(found->second)) {
    value = text == "true" ? nlohmann::json(true) : text == "false" ? nlohmann::json(false) : value;
  } else if (!std::holds_alternative<std::string*>(found->second)) {
    const nlohmann::json number = ParseJsonOrDiscard(text);
    value = number.is_number() ? number : value;
  }
  SetOption(name, value, found->second);
  return true;
}

std::string AnswerQuestion(const std::string& question) {
  // Texts that people paste need not be UTF-8.
  try {
    return JsonText(Answered(ParseJson(question)));
  } catch (const std::exception& error) {
    return JsonText(nlohmann::json{{"error", error.what()}});
  }
}

}  // namespace trireme
