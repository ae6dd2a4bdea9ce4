#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/units.h"
#include "planner/validation/validate.h"

namespace trireme {
namespace {

std::string Line(const GroupScore& score) {
  const std::string memory =
      score.remembered > 0 ? fmt::format("{:5.1f} % of {:3}", 100 * score.memory_error, score.remembered) : "-";
  return fmt::format("{:<44} {:>4} {:>7.1f} % {:>+7.1f} %  {:>15}  {:>5.0f} %  {:>6.1f} %\n", score.name, score.timed,
                     100 * score.time_error, 100 * score.time_bias, memory, 100 * score.covered,
                     100 * score.half_width);
}

std::string Line(const char* name, const RegretScore& regret) {
  return regret.sets == 0
             ? ""
             : fmt::format(
                   "  {}: {:.2f} % median, {:.2f} % mean, {:.2f} % worst over {} sets of three runs and more{}\n", name,
                   100 * regret.median, 100 * regret.mean, 100 * regret.worst, regret.sets,
                   regret.expected > 0 ? fmt::format("; {:.2f} % expected", 100 * regret.expected) : "");
}

std::string Line(const SourceScore& score) {
  std::string text = Line(score.all);
  text += score.settled.name.empty() ? "" : Line(score.settled);
  text += score.well.name.empty() ? "" : Line(score.well);
  text += Line("regret", score.regret);
  text += score.sick > 0 ? Line("regret without sick runs", score.well_regret) : "";
  if (score.memory_failures + score.other_failures + score.unclear_failures > 0) {
    text += fmt::format(
        "  failed: {} out of memory by exact formulas ({} called, {:.0f} %), {} of something else, {} left out\n",
        score.memory_failures, score.called, 100.0 * score.called / std::max(score.memory_failures, 1),
        score.other_failures, score.unclear_failures);
  }
  if (score.false_alarms > 0) {
    text += fmt::format("  called out of memory but ran: {} of {} ({:.1f} %)\n", score.false_alarms, score.ran,
                        100.0 * score.false_alarms / score.ran);
  }
  return text;
}

nlohmann::json ToJsonValue(const GroupScore& score) {
  return {{"name", score.name},
          {"runs_timed", score.timed},
          {"runs_in_days", score.days_only},
          {"time_error", score.time_error},
          {"time_bias", score.time_bias},
          {"runs_with_memory", score.remembered},
          {"memory_error", score.memory_error},
          {"interval_coverage", score.covered},
          {"interval_half_width", score.half_width}};
}

nlohmann::json ToJsonValue(const Prediction& prediction) {
  const MeasuredRun& run = *prediction.run;
  nlohmann::json json{{"id", run.id},
                      {"cluster", prediction.cluster},
                      {"stack", prediction.stack},
                      {"predicted_seconds", prediction.seconds},
                      {"interval", {prediction.low, prediction.high}},
                      {"predicted_days_per_100b", prediction.days_per_100b},
                      {"predicted_peak_gb", prediction.peak / kGibi},
                      {"predicted_worst_stage_gb", prediction.worst / kGibi},
                      {"fits", prediction.fits},
                      {"fit_probability", prediction.fit_probability},
                      {"sick", prediction.sick},
                      {"used_for_fit", prediction.fitted_on},
                      {"outcome", run.outcome},
                      {"trust", run.trust}};
  if (prediction.assumed_cluster) {
    json["assumption"] = "no file names this machine; " + prediction.cluster + " has the same accelerator";
  }
  if (prediction.assumed_stack) {
    json["assumed_stack"] = "no file names this program; " + prediction.stack + " stands for it";
  }
  if (const auto measured = run.measured_seconds()) {
    json["measured_seconds"] = *measured;
  }
  if (run.memory_gib) {
    json["measured_peak_gb"] = *run.memory_gib;
  }
  return json;
}

}  // namespace

std::string ToText(const Validation& validation) {
  std::string text = fmt::format("{:<44} {:>4} {:>9} {:>9}  {:>15}  {:>7}  {:>8}\n", "group (clean runs)", "runs",
                                 "time", "bias", "memory", "within", "+-");
  for (const GroupScore& group : validation.groups) {
    text += Line(group);
  }
  if (validation.suspect.timed > 0) {
    text += Line(validation.suspect);
  }
  text += "\nby source\n";
  for (const SourceScore& source : validation.sources) {
    text += Line(source);
  }
  std::string sick;
  for (const Prediction& prediction : validation.predictions) {
    sick += prediction.sick ? " " + prediction.run->id : "";
  }
  text += sick.empty() ? "" : "sick runs, set aside from fits:" + sick + "\n";
  text +=
      fmt::format("\nout of memory: {} of {} found, {} false alarms; first choice ran out of memory in {} sets\n",
                  validation.found, validation.out_of_memory, validation.false_alarms, validation.chosen_out_of_memory);
  text += fmt::format(
      "decision sets: {}; Spearman {:.2f}, Kendall {:.2f} (three layouts and more); regret {:.2f} % median, "
      "{:.2f} % mean, {:.2f} % worst\n",
      validation.sets.size(), validation.mean_spearman, validation.mean_kendall, 100 * validation.median_regret,
      100 * validation.mean_regret, 100 * validation.worst_regret);
  text += fmt::format("the ratio of two layouts of a set errs by {:.1f} % (mean of {} pairs): closer ones are ties\n",
                      100 * std::expm1(validation.paired_error), validation.pairs);
  for (const SetScore& set : validation.sets) {
    const std::string expected =
        set.expected_regret > 0 ? fmt::format(" (expected {:.2f} %)", 100 * set.expected_regret) : "";
    text +=
        fmt::format("  {:<88} {:>2} layouts  rho {:>5.2f}  regret {:>5.2f} %{}{}\n", set.name, set.layouts,
                    set.spearman, 100 * set.regret, expected, set.chose_out_of_memory ? "  CHOSE OUT OF MEMORY" : "");
  }
  if (!validation.unrepresented.empty()) {
    text += "\nnot predicted:\n";
    for (const Unrepresented& row : validation.unrepresented) {
      text += fmt::format("  {:<24} {}\n", row.run->id, row.reason);
    }
  }
  return text;
}

std::string ToJson(const Validation& validation) {
  nlohmann::json json{{"runs", nlohmann::json::array()},
                      {"groups", nlohmann::json::array()},
                      {"decision_sets", nlohmann::json::array()}};
  for (const Prediction& prediction : validation.predictions) {
    json["runs"].push_back(ToJsonValue(prediction));
  }
  json["not_predicted"] = nlohmann::json::array();
  for (const Unrepresented& row : validation.unrepresented) {
    json["not_predicted"].push_back({{"id", row.run->id}, {"reason", row.reason}});
  }
  for (const GroupScore& group : validation.groups) {
    json["groups"].push_back(ToJsonValue(group));
  }
  json["sources"] = nlohmann::json::array();
  for (const SourceScore& source : validation.sources) {
    json["sources"].push_back({{"all", ToJsonValue(source.all)},
                               {"settled", ToJsonValue(source.settled)},
                               {"well", ToJsonValue(source.well)},
                               {"sick", source.sick},
                               {"sets", source.regret.sets},
                               {"mean_regret", source.regret.mean},
                               {"median_regret", source.regret.median},
                               {"worst_regret", source.regret.worst},
                               {"well_sets", source.well_regret.sets},
                               {"well_mean_regret", source.well_regret.mean},
                               {"well_median_regret", source.well_regret.median},
                               {"memory_failures", source.memory_failures},
                               {"called", source.called},
                               {"other_failures", source.other_failures},
                               {"unclear_failures", source.unclear_failures},
                               {"ran", source.ran},
                               {"false_alarms", source.false_alarms}});
  }
  json["suspect"] = ToJsonValue(validation.suspect);
  json["out_of_memory"] = {{"runs", validation.out_of_memory},
                           {"found", validation.found},
                           {"false_alarms", validation.false_alarms},
                           {"first_choices", validation.chosen_out_of_memory}};
  for (const SetScore& set : validation.sets) {
    json["decision_sets"].push_back({{"name", set.name},
                                     {"layouts", set.layouts},
                                     {"spearman", set.spearman},
                                     {"kendall", set.kendall},
                                     {"regret", set.regret},
                                     {"expected_regret", set.expected_regret}});
  }
  json["mean_spearman"] = validation.mean_spearman;
  json["mean_kendall"] = validation.mean_kendall;
  json["mean_regret"] = validation.mean_regret;
  json["median_regret"] = validation.median_regret;
  json["paired_error"] = validation.paired_error;
  json["pairs"] = validation.pairs;
  json["worst_regret"] = validation.worst_regret;
  return JsonText(json, {.indent = 2}) + "\n";
}

}  // namespace trireme
