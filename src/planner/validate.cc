#include "planner/validate.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/units.h"
#include "planner/score_runs.h"
#include "planner/step_estimate.h"

namespace trireme {
namespace {

using Group = std::vector<const PricedRun*>;

// What was decided: repeats of it share a text.
std::string Decision(const PlanPoint& point) {
  ParallelLayout layout = point.layout;
  if (layout.data == 1) {
    layout.zero = 0;  // nothing to shard over
  }
  return fmt::format("{} {}{}", layout.ToString(), point.flash ? "flash" : "unfused",
                     point.power_sgd ? " powersgd" : "");
}

Prediction Predict(const PricedRun& run, const Cluster& cluster, const SoftwareStack& stack,
                   const StackCalibration* calibration, PipelineClock& clock) {
  const StackState state = StateFor(stack, cluster, run.point.run->date, calibration);
  const PlanPoint point = run.point.PointUnder(cluster, state);
  const StepEstimate estimate = EstimateStep(point, run.account, clock);
  Prediction prediction{.run = run.point.run,
                        .cluster = cluster.name,
                        .stack = stack.name,
                        .assumed_cluster = run.point.assumed_cluster,
                        .layout = Decision(point),
                        .slowed = state.slowed,
                        .seconds = estimate.seconds,
                        .low = estimate.low,
                        .high = estimate.high,
                        .peak = estimate.memory.reported,
                        .worst = estimate.memory.peak};
  prediction.days_per_100b = estimate.seconds /
                             (static_cast<double>(point.global_batch) * static_cast<double>(point.model.sequence)) *
                             100e9 / 86'400;
  prediction.fits =
      estimate.memory.peak <= UsableMemory(cluster) && estimate.memory.host_per_node <= cluster.host_memory;
  return prediction;
}

bool Teaches(const PricedRun& run) {
  return run.point.run->clean() && !run.point.run->ran_out_of_memory() && (run.seconds > 0 || run.memory > 0);
}

Group Teachers(const Group& group, const std::string& but_table) {
  Group teachers;
  for (const PricedRun* run : group) {
    if (Teaches(*run) && run->point.run->source + "\n" + run->point.run->table != but_table) {
      teachers.push_back(run);
    }
  }
  return teachers;
}

// N timed runs spread evenly over a group.
Group Spread(const Group& group, int count) {
  Group timed;
  for (const PricedRun* run : group) {
    if (Teaches(*run) && run->seconds > 0) {
      timed.push_back(run);
    }
  }
  Group chosen;
  for (int i = 0; i < count && !timed.empty(); ++i) {
    const std::size_t at = (2 * static_cast<std::size_t>(i) + 1) * timed.size() / (2 * static_cast<std::size_t>(count));
    if (chosen.empty() || chosen.back() != timed[at]) {
      chosen.push_back(timed[at]);
    }
  }
  return chosen;
}

class Validator {
 public:
  Validator(const PlannerFiles& files, const ValidateOptions& options) : files_(files), options_(options) {}

  void Price(const Group& group, std::vector<Prediction>& predictions) {
    const SoftwareStack& stack = files_.stacks[static_cast<std::size_t>(group.front()->point.stack)];
    if (options_.leave_one_out) {
      LeaveOneOut(group, stack, predictions);
      return;
    }
    StackCalibration fitted;
    std::set<const PricedRun*> taught;
    if (options_.fit > 0) {
      const Group chosen = Spread(group, options_.fit);
      taught.insert(chosen.begin(), chosen.end());
      fitted = Calibrate(files_.clusters, stack, chosen, clock_);
    }
    for (const PricedRun* run : group) {
      predictions.push_back(Predict(*run, ClusterOf(*run), stack, options_.fit > 0 ? &fitted : nullptr, clock_));
      predictions.back().fitted_on = taught.count(run) != 0;
    }
  }

 private:
  const Cluster& ClusterOf(const PricedRun& run) const {
    return files_.clusters[static_cast<std::size_t>(run.point.cluster)];
  }

  void LeaveOneOut(const Group& group, const SoftwareStack& stack, std::vector<Prediction>& predictions) {
    const StackCalibration whole = Calibrate(files_.clusters, stack, Teachers(group, ""), clock_);
    std::map<std::string, StackCalibration> without;
    for (const PricedRun* run : group) {
      const std::string table = run->point.run->source + "\n" + run->point.run->table;
      auto found = without.find(table);
      if (found == without.end()) {
        found = without.emplace(table, Calibrate(files_.clusters, stack, Teachers(group, table), clock_, &whole)).first;
      }
      predictions.push_back(Predict(*run, ClusterOf(*run), stack, &found->second, clock_));
    }
  }

  const PlannerFiles& files_;
  const ValidateOptions& options_;
  PipelineClock clock_;
};

}  // namespace

namespace {

using Groups = std::map<std::pair<std::string, int>, Group>;

std::vector<PricedRun> PriceableRuns(const std::vector<MeasuredRun>& runs, const PlannerFiles& files,
                                     std::vector<Unrepresented>& unrepresented) {
  std::vector<PricedRun> priced;
  for (const MeasuredRun& run : runs) {
    Understood understood = Understand(run, files);
    if (!understood.point) {
      unrepresented.push_back({&run, understood.reason});
      continue;
    }
    const ModelConfig model = understood.point->model;
    priced.push_back({.point = std::move(*understood.point),
                      .account = ModelAccount(model),
                      .seconds = run.measured_seconds().value_or(0),
                      .memory = run.memory_gib.value_or(0) * kGibi});
  }
  return priced;
}

// By site and stack; the groups point into `priced`.
Groups GroupsOf(const std::vector<PricedRun>& priced, const PlannerFiles& files) {
  Groups groups;
  for (const PricedRun& run : priced) {
    groups[{files.clusters[static_cast<std::size_t>(run.point.cluster)].site, run.point.stack}].push_back(&run);
  }
  return groups;
}

}  // namespace

std::string CalibrationsText(const std::vector<MeasuredRun>& runs, const PlannerFiles& given) {
  const PlannerFiles files = WithAssumedClusters(given, runs);
  std::vector<Unrepresented> unrepresented;
  const std::vector<PricedRun> priced = PriceableRuns(runs, files, unrepresented);
  PipelineClock clock;
  std::string text;
  for (const auto& [key, group] : GroupsOf(priced, files)) {
    const Group teachers = Teachers(group, "");
    if (!teachers.empty()) {
      const SoftwareStack& stack = files.stacks[static_cast<std::size_t>(key.second)];
      text += "# " + stack.name + "\n" + ToToml(Calibrate(files.clusters, stack, teachers, clock)) + "\n";
    }
  }
  return text;
}

Validation Validate(const std::vector<MeasuredRun>& runs, const PlannerFiles& given, const ValidateOptions& options) {
  const PlannerFiles files = WithAssumedClusters(given, runs);
  Validation validation;
  const std::vector<PricedRun> priced = PriceableRuns(runs, files, validation.unrepresented);
  Validator validator(files, options);
  for (const auto& [key, group] : GroupsOf(priced, files)) {
    validator.Price(group, validation.predictions);
  }
  std::stable_sort(validation.predictions.begin(), validation.predictions.end(),
                   [](const Prediction& a, const Prediction& b) { return a.run->line < b.run->line; });
  ScoreRuns(validation);
  return validation;
}

}  // namespace trireme
