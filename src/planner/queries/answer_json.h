// An answer as the planner's pages read it (web/src/planner_engine.ts), and the answers to all that a page without the
// planner in it can show of one question.
#pragma once

#include <nlohmann/json.hpp>

#include "planner/queries/plan_answer.h"

namespace trireme {

// What the cluster and the model are.
nlohmann::json AboutJson(const Cluster& cluster, const ModelConfig& model);
// {"about", "text", "json", "notes", "found", "files": [{"path", "text"}]}.
nlohmann::json AnswerJson(const Cluster& cluster, const ModelConfig& model, PlanAnswer answer);

// {"ranking": answer, "layouts": {layout: {"explanation", "timeline", "files"}}, "days": {nodes: answer}}. An answer
// that is refused is {"error"}. The layouts are the first of the ranking; days are searched where the question has
// tokens.
nlohmann::json PageAnswers(const PlanSubject& subject, const PlanOptions& options);

}  // namespace trireme
