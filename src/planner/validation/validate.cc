#include "planner/validation/validate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/units.h"
#include "planner/pricing/interval.h"
#include "planner/pricing/step_estimate.h"
#include "planner/validation/choose_runs.h"
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

double ParametersOf(const PricedRun& run) {
  const ModelConfig& model = run.point.config.model;
  const double table = static_cast<double>(model.vocabulary) * static_cast<double>(model.hidden);
  return static_cast<double>(model.layers) * run.account.block_parameters() + (model.tie_embeddings ? 1 : 2) * table;
}

Prediction Predict(const PricedRun& run, const Cluster& cluster, const SoftwareStack& stack,
                   const StackCalibration* calibration, PipelineClock& clock) {
  const StackState state = StateFor(stack, cluster, *run.point.run, calibration);
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
                        .memory = UsableMemory(cluster),
                        .dtype = point.config.train.dtype,
                        .parameters = ParametersOf(run),
                        .devices = point.config.layout.ranks(),
                        .across = point.config.layout.ranks() > cluster.devices_per_node};
  prediction.days_per_100b =
      estimate.seconds /
      (static_cast<double>(point.config.batch.global) * static_cast<double>(point.config.model.sequence)) * 100e9 /
      86'400;
  prediction.fit_probability = FitProbability(prediction.worst, prediction.memory, state.memory_spread);
  prediction.fits = prediction.fit_probability >= kFitsFrom && estimate.memory.host_per_node <= cluster.job_memory();
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
    double surprise = 1;
    std::set<const PricedRun*> taught;
    if (options_.fit > 0) {
      const Group chosen = Choose(Timed(group, sick), stack, covariance);
      taught.insert(chosen.begin(), chosen.end());
      fitted = options_.fit > kDesigned ? Calibrate(files_.clusters, stack, chosen, clock_)
                                        : CalibrateByCause(files_.clusters, stack, chosen, clock_, kLearned);
      surprise = options_.fit > kDesigned ? 1 : SurpriseOf(chosen, stack);
    }
    const auto known = std::make_shared<const std::vector<double>>(std::move(covariance));
    for (const PricedRun* run : group) {
      Prediction prediction = Predict(*run, ClusterOf(*run), stack, options_.fit > 0 ? &fitted : nullptr, clock_);
      prediction.fitted_on = taught.count(run) != 0;
      prediction.sick = sick.count(run) != 0;
      Widen(*run, stack, known, surprise, prediction);
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
    return StateFor(stack, ClusterOf(run), *run.point.run, nullptr);
  }

  std::vector<double> SlopesOf(const PricedRun& run, const SoftwareStack& stack) {
    const StackState state = PriorOf(run, stack);
    return Sensitivities(run.point.PointUnder(ClusterOf(run), state), run.account, clock_);
  }

  // The interval of a run whose pair of machine and program has no long record.
  void Widen(const PricedRun& run, const SoftwareStack& stack,
             const std::shared_ptr<const std::vector<double>>& covariance, double surprise, Prediction& prediction) {
    if (options_.fit >= kDesigned || (options_.fit == 0 && PriorOf(run, stack).calibrated)) {
      return;
    }
    const bool assumed = prediction.assumed_cluster || prediction.assumed_stack;
    prediction.sensitivities = SlopesOf(run, stack);
    prediction.covariance = covariance;
    const double variance = (assumed ? kAssumed : 1) * Variance(prediction.sensitivities, *covariance);
    constexpr double kNoise = kModelNoise * kModelNoise;
    const double spread = SpreadOf(surprise * (variance + kNoise) - kNoise);
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

  // The runs to measure first, by their layouts alone.
  Group Choose(const Group& all, const SoftwareStack& stack, std::vector<double>& covariance) {
    if (options_.fit > kDesigned) {
      return Spread(all, options_.fit);
    }
    std::vector<Choosable> timed;
    for (const PricedRun* run : Cheap(all, options_.fit)) {
      timed.push_back({run, SlopesOf(*run, stack), TensorWaitOf(run->point, ClusterOf(*run))});
    }
    return ChooseRuns(timed, options_.fit, kLearned, covariance);
  }

  // How far each chosen run lies from what the others make of it, as variance over the expected one; at least 1. A site
  // that the model does not describe surprises.
  double SurpriseOf(const Group& chosen, const SoftwareStack& stack) {
    constexpr double kMost = 25;
    double sum = 0;
    for (const PricedRun* left_out : chosen) {
      Group others;
      std::copy_if(chosen.begin(), chosen.end(), std::back_inserter(others),
                   [&](const PricedRun* run) { return run != left_out; });
      const StackCalibration fitted = CalibrateByCause(files_.clusters, stack, others, clock_, kLearned);
      std::vector<double> covariance = PriorCovariance();
      for (const PricedRun* run : others) {
        Learn(SlopesOf(*run, stack), kLearned, covariance);
      }
      const StackState state = StateFor(stack, ClusterOf(*left_out), *left_out->point.run, &fitted);
      const double seconds =
          EstimateTime(left_out->point.PointUnder(ClusterOf(*left_out), state), left_out->account, clock_).seconds;
      const double residual = std::log(seconds / left_out->seconds);
      sum += residual * residual / (Variance(SlopesOf(*left_out, stack), covariance) + kModelNoise * kModelNoise);
    }
    return chosen.size() < 3 ? 1 : std::clamp(sum / static_cast<double>(chosen.size()), 1.0, kMost);
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
