#include "planner/validation/validate.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/units.h"
#include "planner/pricing/interval.h"
#include "planner/pricing/step_estimate.h"
#include "planner/validation/score_runs.h"
#include "planner/validation/sick_runs.h"

namespace trireme {
namespace {

using Group = std::vector<const PricedRun*>;

// What was decided: repeats of it share a text.
std::string Decision(const PlanPoint& point) {
  ParallelLayout layout = point.config.layout;
  layout.shard_ranks = 0;  // a note's: tables have no column for it
  if (layout.replicas() == 1) {
    layout.zero = 0;  // nothing to shard over
  }
  return fmt::format("{} {}{}", layout.ToString(), point.flash() ? "flash" : "unfused",
                     point.power_sgd ? " powersgd" : "");
}

// Weights, gradients, optimizer state and kept activations of the fullest stage: no number here was fitted.
double ExactBytes(const MemoryEstimate& memory) {
  double most = 0;
  for (const StageMemory& stage : memory.stages) {
    most = std::max(most, stage.weights + stage.gradients + stage.accumulation + stage.optimizer + stage.activations);
  }
  return most;
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
                        .assumed_stack = run.point.assumed_stack,
                        .layout = Decision(point),
                        .slowed = state.slowed,
                        .seconds = estimate.seconds,
                        .low = estimate.low,
                        .high = estimate.high,
                        .peak = estimate.memory.reported,
                        .worst = estimate.memory.peak,
                        .exact = ExactBytes(estimate.memory),
                        .memory = UsableMemory(cluster)};
  prediction.days_per_100b =
      estimate.seconds /
      (static_cast<double>(point.config.batch.global) * static_cast<double>(point.config.model.sequence)) * 100e9 /
      86'400;
  prediction.fit_probability = FitProbability(prediction.worst, prediction.memory, state.memory_spread);
  prediction.fits = prediction.fit_probability >= kFitsFrom && estimate.memory.host_per_node <= cluster.host_memory;
  return prediction;
}

bool Teaches(const PricedRun& run) {
  return run.point.run->clean() && run.point.run->ran() && (run.seconds > 0 || run.memory > 0);
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

// Timed runs that a fit may learn from.
Group Timed(const Group& group, const std::set<const PricedRun*>& sick) {
  Group timed;
  for (const PricedRun* run : group) {
    if (Teaches(*run) && run->seconds > 0 && sick.count(run) == 0) {
      timed.push_back(run);
    }
  }
  return timed;
}

// Those on few devices, where enough are: they are the ones to measure first.
Group Cheap(const Group& timed, int count) {
  constexpr int kFewDevices = 64;
  Group cheap;
  std::copy_if(timed.begin(), timed.end(), std::back_inserter(cheap),
               [](const PricedRun* run) { return run->point.config.layout.ranks() <= kFewDevices; });
  return static_cast<int>(cheap.size()) >= 2 * count ? cheap : timed;
}

// `count` of them, evenly.
Group Spread(const Group& timed, int count) {
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
    const std::set<const PricedRun*> sick = SickOf(group, stack);
    std::vector<double> covariance = PriorCovariance();
    StackCalibration fitted;
    std::set<const PricedRun*> taught;
    if (options_.fit > 0) {
      const Group chosen = Choose(Timed(group, sick), stack, covariance);
      taught.insert(chosen.begin(), chosen.end());
      fitted = Calibrate(files_.clusters, stack, chosen, clock_, nullptr,
                         options_.fit > kDesigned ? LeastSquares().noise : kLearned);
    }
    for (const PricedRun* run : group) {
      Prediction prediction = Predict(*run, ClusterOf(*run), stack, options_.fit > 0 ? &fitted : nullptr, clock_);
      prediction.fitted_on = taught.count(run) != 0;
      prediction.sick = sick.count(run) != 0;
      Widen(*run, stack, covariance, prediction);
      predictions.push_back(std::move(prediction));
    }
  }

 private:
  static constexpr int kDesigned = 20;      // runs that are chosen one by one
  static constexpr double kLearned = 0.06;  // noise of a run that teaches, in its choice and in the fit
  static constexpr double kAssumed = 2;     // times the variance of a machine or a program that no file names

  const Cluster& ClusterOf(const PricedRun& run) const {
    return files_.clusters[static_cast<std::size_t>(run.point.cluster)];
  }

  StackState PriorOf(const PricedRun& run, const SoftwareStack& stack) const {
    return StateFor(stack, ClusterOf(run), run.point.run->date, nullptr);
  }

  std::vector<double> SlopesOf(const PricedRun& run, const SoftwareStack& stack) {
    const StackState state = PriorOf(run, stack);
    return Sensitivities(run.point.PointUnder(ClusterOf(run), state), run.account, clock_);
  }

  // The interval of a run whose pair of machine and program has no long record.
  void Widen(const PricedRun& run, const SoftwareStack& stack, const std::vector<double>& covariance,
             Prediction& prediction) {
    if (options_.fit >= kDesigned || (options_.fit == 0 && PriorOf(run, stack).calibrated)) {
      return;
    }
    const bool assumed = prediction.assumed_cluster || prediction.assumed_stack;
    const double spread = SpreadOf((assumed ? kAssumed : 1) * Variance(SlopesOf(run, stack), covariance));
    prediction.low = prediction.seconds / (1 + spread);
    prediction.high = prediction.seconds * (1 + spread);
  }

  std::set<const PricedRun*> SickOf(const Group& group, const SoftwareStack& stack) {
    std::vector<double> predicted;
    for (const PricedRun* run : group) {
      const StackState state = PriorOf(*run, stack);
      predicted.push_back(EstimateTime(run->point.PointUnder(ClusterOf(*run), state), run->account, clock_).seconds);
    }
    const std::vector<bool> found = FindSick(group, predicted);
    std::set<const PricedRun*> sick;
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (found[i]) {
        sick.insert(group[i]);
      }
    }
    return sick;
  }

  // The runs to measure first, by their layouts alone: each next one leaves the least doubt about all others.
  Group Choose(const Group& all, const SoftwareStack& stack, std::vector<double>& covariance) {
    if (options_.fit > kDesigned) {
      return Spread(all, options_.fit);
    }
    const Group timed = Cheap(all, options_.fit);
    std::vector<std::vector<double>> slopes;
    for (const PricedRun* run : timed) {
      slopes.push_back(SlopesOf(*run, stack));
    }
    Group chosen;
    std::vector<bool> used(timed.size(), false);
    for (int n = 0; n < std::min(options_.fit, static_cast<int>(timed.size())); ++n) {
      std::size_t best = 0;
      double most = -1;
      for (std::size_t i = 0; i < timed.size(); ++i) {
        const double gain = used[i] ? -1 : Gain(slopes[i], slopes, covariance);
        if (gain > most) {
          most = gain;
          best = i;
        }
      }
      used[best] = true;
      chosen.push_back(timed[best]);
      Learn(slopes[best], kLearned, covariance);
    }
    return chosen;
  }

  // How much doubt about all runs one more run would take.
  static double Gain(const std::vector<double>& one, const std::vector<std::vector<double>>& all,
                     const std::vector<double>& covariance) {
    double gain = 0;
    for (const std::vector<double>& other : all) {
      const double shared = Covariance(one, other, covariance);
      gain += shared * shared;
    }
    return gain / (Variance(one, covariance) + kLearned * kLearned);
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
    const ModelConfig model = understood.point->config.model;
    priced.push_back({.point = std::move(*understood.point),
                      .account = ModelAccount(model),
                      .seconds = run.measured_seconds().value_or(0),
                      .memory = run.memory_gib.value_or(0) * kGibi});
  }
  return priced;
}

// By site and stack, or by source and stack; the groups point into `priced`.
Groups GroupsOf(const std::vector<PricedRun>& priced, const PlannerFiles& files, bool by_source) {
  Groups groups;
  for (const PricedRun& run : priced) {
    const std::string& site = files.clusters[static_cast<std::size_t>(run.point.cluster)].site;
    groups[{by_source ? SourceOf(*run.point.run) : site, run.point.stack}].push_back(&run);
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
  for (const auto& [key, group] : GroupsOf(priced, files, false)) {
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
  for (const auto& [key, group] : GroupsOf(priced, files, !options.leave_one_out)) {
    validator.Price(group, validation.predictions);
  }
  std::stable_sort(validation.predictions.begin(), validation.predictions.end(),
                   [](const Prediction& a, const Prediction& b) { return a.run->line < b.run->line; });
  ScoreRuns(validation);
  return validation;
}

}  // namespace trireme
