#include "planner/queries/phases.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "planner/queries/layout_words.h"
#include "planner/queries/plan_text.h"
#include "planner/search/at_most.h"

namespace trireme {
namespace {

double NumberOf(const std::string& text, const std::string& whole) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  Require(error == std::errc() && stop == text.data() + text.size() && value > 0 && value < 1e9,
          "'{}' in '{}' must be a number above 0; write nodes:days, such as 16:30,48", text, whole);
  return value;
}

}  // namespace

std::vector<Phase> ParsePhases(const std::string& text) {
  std::vector<Phase> phases;
  std::size_t at = 0;
  while (at <= text.size()) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string one = text.substr(at, comma - at);
    const std::size_t colon = one.find(':');
    const double nodes = NumberOf(one.substr(0, colon), text);
    Require(nodes <= 1e6 && nodes == static_cast<int>(nodes), "'{}': nodes must be a whole number of at most a million",
            one);
    phases.push_back({.nodes = static_cast<int>(nodes),
                      .days = colon == std::string::npos ? 0 : NumberOf(one.substr(colon + 1), text)});
    at = comma + 1;
  }
  return phases;
}

std::vector<PhasePlan> PlanPhases(const SearchRequest& request, const std::vector<Phase>& phases, double tokens) {
  Require(tokens > 0, "an allocation that changes over time needs --tokens");
  std::vector<PhasePlan> plans;
  double left = tokens;
  for (const Phase& phase : phases) {
    PhasePlan plan{.phase = phase};
    SearchRequest here = request;
    here.devices = phase.nodes * request.cluster.devices_per_node;
    here.keep = 1;
    here.tie = 0;
    const AtMostResult most = SearchAtMost(here);
    if (!most.found.ranked.empty() && left > 0) {
      plan.best = most.found.ranked.front();
      const TrainingTime whole = TimeOfTraining(here, plan.best, left);
      const double share = phase.days > 0 ? std::min(phase.days / whole.days, 1.0) : 1.0;
      plan.tokens = left * share;
      plan.days = whole.days * share;
      plan.device_hours = whole.device_hours * share;
      left -= plan.tokens;
    }
    plans.push_back(plan);
  }
  return plans;
}

std::string ToText(const std::vector<PhasePlan>& plans, double tokens) {
  std::string text = fmt::format("{:>6} {:>8} {:>10} {:>9} {:>12}  {}\n", "nodes", "days", "tokens, B", "s/step",
                                 "device-hours", "layout");
  double done = 0;
  double days = 0;
  for (const PhasePlan& plan : plans) {
    text += fmt::format("{:>6} {:>8.1f} {:>10.1f} {:>9.2f} {:>12.0f}  {}\n", plan.phase.nodes, plan.days,
                        plan.tokens / 1e9, plan.best.seconds, plan.device_hours,
                        plan.best.seconds > 0 ? NamedLayout(plan.best.layout) : "nothing to do, or nothing fits");
    done += plan.tokens;
    days += plan.days;
  }
  const bool complete = done >= tokens * (1 - 1e-9);
  text += complete ? fmt::format("done after {:.1f} days\n", days)
                   : fmt::format("{:.1f} of {:.1f} billion tokens when the allocation ends after {:.1f} days\n",
                                 done / 1e9, tokens / 1e9, days);
  return text;
}

}  // namespace trireme
