#include "planner/queries/plan_cases.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/count_text.h"
#include "base/error.h"
#include "planner/queries/plan_question.h"

namespace trireme {
namespace {

const std::vector<std::string>& LayoutSettings() {
  static const std::vector<std::string> kWords = {
      "tp",     "cp", "pp",        "dp",     "mbs",   "zero",   "schedule", "recompute",          "offload",
      "chunks", "sp", "partition", "shards", "whole", "reduce", "gather",   "offload_activations"};
  return kWords;
}

std::string OptionName(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name == "batch" || name == "gbs" ? "global-batch" : name;
}

[[noreturn]] void FailUnknown(const std::string& name) {
  std::vector<std::string> known = PlanOptionNames();
  known.insert(known.end(), {"label", "model", "cluster", "stack", "batch"});
  known.insert(known.end(), LayoutSettings().begin(), LayoutSettings().end());
  std::sort(known.begin(), known.end());
  Fail("a case has no setting '{}'{}; known: {}", name, NearestMatch(name, known), fmt::join(known, ", "));
}

}  // namespace

CaseQuestion WithSettings(const CaseQuestion& base, const CaseSettings& settings) {
  CaseQuestion question = base;
  std::string words;
  for (const auto& [name, value] : settings) {
    if (name == "label") {
      continue;
    }
    if (name == "model" || name == "cluster" || name == "stack") {
      (name == "model" ? question.model : name == "cluster" ? question.cluster : question.stack) = value;
    } else if (std::find(LayoutSettings().begin(), LayoutSettings().end(), name) != LayoutSettings().end()) {
      words += fmt::format(" {}={}", name, value);
    } else if (!SetPlanOption(OptionName(name), WithoutUnit(value), question.options, question.shape)) {
      FailUnknown(name);
    }
    // Another way to say how many there are takes the place of the command line's.
    if (name == "nodes" || name == "gpus") {
      (name == "nodes" ? question.options.gpus : question.options.nodes) = 0;
    }
  }
  (question.options.layout.empty() ? question.options.fix : question.options.layout) += words;
  return question;
}

}  // namespace trireme
