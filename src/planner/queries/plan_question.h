// A question for the planner as JSON and its answer as JSON: what the planner's page asks. The same AnswerPlan that
// `trireme plan` prints from answers it, so that the numbers are the command's. No file is read: a question carries the
// texts of the files that it is about.
#pragma once

#include <string>
#include <vector>

#include "planner/queries/plan_answer.h"

namespace trireme {

// {"cluster": TOML, "stack": TOML, "model": {"recipe": TOML} or {"config": JSON of Hugging Face} or {}, "options": {…}}
// Options have the names and meanings of the command's: {"nodes": 48, "global-batch": 2048, "layout": "tp=4 pp=12 …"}.
// "describe": true leaves the search out.
//
// The answer is {"text", "json", "notes", "found", "files": [{"path", "text"}]}, as `trireme plan` writes them, and
// "about": what the cluster, the model and the request are. A mistake is {"error": message}; nothing is thrown.
std::string AnswerQuestion(const std::string& question);

// Sets an option of `trireme plan` by its name, without dashes, from a text. False where there is no such option; an
// Error where the text is no value of it.
bool SetPlanOption(const std::string& name, const std::string& text, PlanOptions& plan, ShapeOptions& shape);
std::vector<std::string> PlanOptionNames();

}  // namespace trireme
