#include "planner/validation/calibration.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "base/error.h"
#include "planner/pricing/collective_time.h"
#include "planner/pricing/price_model.h"
#include "planner/pricing/step_estimate.h"
#include "planner/validation/least_squares.h"

namespace trireme {
namespace {

// Repeats differ by this much at best; an interval is never narrower.
constexpr double kLeastSpread = 0.02;

Efficiencies Moved(const Efficiencies& base, const std::vector<double>& x) {
  Efficiencies moved = base;
  const std::vector<EfficiencyField>& fields = EfficiencyFields();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    moved.*fields[i].member = base.*fields[i].member * std::exp(x[i]);
  }
  return moved;
}

MemoryTraits Moved(const MemoryTraits& base, const std::vector<double>& x) {
  MemoryTraits moved = base;
  const std::vector<MemoryField>& fields = MemoryFields();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    moved.*fields[i].member = base.*fields[i].member * std::exp(x[i]);
  }
  return moved;
}

// Runs of one table of one model on as many devices: what went wrong with one of them did with all.
std::string CaseOf(const PricedRun& run) {
  const RunConfig& config = run.point.config;
  return fmt::format("{} {} {}x{} on {}", run.point.run->source, run.point.run->table, config.model.layers,
                     config.model.hidden, config.layout.ranks());
}

// Half of an interval that holds 80 % of the residuals, each case with the same weight. Runs of one table share their
// day and their operator, so that a new table differs more than a new run: the fewer tables were seen, the wider.
double SpreadOfResiduals(const std::vector<double>& residuals, const std::vector<const PricedRun*>& runs,
                         double fallback) {
  if (residuals.size() < 3) {
    return fallback;
  }
  std::map<std::string, int> cases;
  std::set<std::string> tables;
  for (const PricedRun* run : runs) {
    ++cases[CaseOf(*run)];
    tables.insert(run->point.run->source + run->point.run->table);
  }
  std::vector<std::pair<double, double>> sizes;  // with their weights
  for (std::size_t i = 0; i < residuals.size(); ++i) {
    sizes.emplace_back(std::abs(residuals[i]), 1.0 / cases[CaseOf(*runs[i])]);
  }
  std::sort(sizes.begin(), sizes.end());
  const double count = static_cast<double>(cases.size());
  const double wanted = std::min(0.8 * (count + 1), count);
  double within = 0;
  std::size_t at = 0;
  while (at + 1 < sizes.size() && (within += sizes[at].second) < wanted - 1e-9) {
    ++at;
  }
  return std::max(kLeastSpread, std::expm1(sizes[at].first * (1 + 2.5 / static_cast<double>(tables.size()))));
}

// How far the ratio of two runs of one decision is off, in the mean: of one model and batch on as many devices.
double PairedSpread(const std::vector<double>& residuals, const std::vector<const PricedRun*>& runs, double fallback) {
  const auto same = [](const RunPoint& a, const RunPoint& b) {
    return a.run->source == b.run->source && a.config.model == b.config.model &&
           a.config.batch.global == b.config.batch.global && a.config.train.dtype == b.config.train.dtype &&
           a.config.layout.ranks() == b.config.layout.ranks() && !(a.config.layout == b.config.layout);
  };
  double sum = 0;
  int pairs = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (same(runs[i]->point, runs[k]->point)) {
        sum += std::abs(residuals[i] - residuals[k]);
        ++pairs;
      }
    }
  }
  constexpr int kEnough = 3;
  return pairs < kEnough ? fallback : std::max(kLeastSpread, std::expm1(sum / pairs));
}

template <typename Fields>
std::vector<double> DeviationsOf(const Fields& fields) {
  std::vector<double> deviations;
  for (const auto& field : fields) {
    deviations.push_back(field.deviation);
  }
  return deviations;
}

using Runs = std::vector<const PricedRun*>;

constexpr double kHeld = 1e-4;  // the deviation of a number that is known

struct TimeFit {
  const std::vector<Cluster>& clusters;
  const SoftwareStack& stack;
  PipelineClock& clock;
  double noise;

  // Starts at `calibration`'s efficiencies, to which the prior holds, and returns the residuals of the solution.
  std::vector<double> Move(const Runs& runs, const std::vector<double>& deviations, const StackCalibration* start,
                           StackCalibration& calibration) const {
    const Efficiencies base = calibration.efficiencies;
    StackCalibration trial = calibration;
    LeastSquares problem;
    problem.deviations = deviations;
    problem.noise = noise;
    problem.residuals = [&](const std::vector<double>& x) {
      trial.efficiencies = Moved(base, x);
      std::vector<double> residuals;
      for (const PricedRun* run : runs) {
        const Cluster& cluster = clusters[static_cast<std::size_t>(run->point.cluster)];
        const StackState state = StateFor(stack, cluster, *run->point.run, &trial);
        const double seconds = EstimateTime(run->point.PointUnder(cluster, state), run->account, clock).seconds;
        residuals.push_back(std::log(seconds / run->seconds));
      }
      return residuals;
    };
    std::vector<double> from;
    if (start != nullptr) {
      for (const EfficiencyField& field : EfficiencyFields()) {
        from.push_back(std::log(start->efficiencies.*field.member / base.*field.member));
      }
      problem.iterations = 4;
    }
    const LeastSquaresFit fit = Solve(problem, from);
    calibration.efficiencies = Moved(base, fit.x);
    return fit.residuals;
  }
};

Runs TimedOf(const Runs& runs) {
  Runs timed;
  std::copy_if(runs.begin(), runs.end(), std::back_inserter(timed),
               [](const PricedRun* run) { return run->seconds > 0; });
  return timed;
}

bool OfWaits(const EfficiencyField& field) {
  return field.member == &Efficiencies::stall_seconds || field.member == &Efficiencies::node_latency;
}

// The prior's deviations, of waits or of all else; the others are held.
std::vector<double> DeviationsOf(bool waits) {
  std::vector<double> deviations;
  for (const EfficiencyField& field : EfficiencyFields()) {
    deviations.push_back(OfWaits(field) == waits ? field.deviation : kHeld);
  }
  return deviations;
}

void FitMemory(const std::vector<Cluster>& clusters, const SoftwareStack& stack,
               const std::vector<const PricedRun*>& runs, PipelineClock& clock, StackCalibration& calibration) {
  // Exact counts leave nothing to fit.
  const auto counts = [&](const PricedRun& run) {
    const Cluster& cluster = clusters[static_cast<std::size_t>(run.point.cluster)];
    return ChoosePrices(cluster, StateFor(stack, cluster, *run.point.run, nullptr), DTypeOf(run.point.config))
        .prices_every_recipe();
  };
  std::vector<const PricedRun*> known;
  for (const PricedRun* run : runs) {
    if (run->memory > 0 && !counts(*run)) {
      known.push_back(run);
    }
  }
  if (known.empty()) {
    return;
  }
  LeastSquares problem;
  problem.deviations = DeviationsOf(MemoryFields());
  problem.residuals = [&](const std::vector<double>& x) {
    std::vector<double> residuals;
    for (const PricedRun* run : known) {
      const Cluster& cluster = clusters[static_cast<std::size_t>(run->point.cluster)];
      StackState state = StateFor(stack, cluster, *run->point.run, nullptr);
      const double accumulation = state.memory.accumulation;
      state.memory = Moved(stack.memory, x);
      state.memory.accumulation = accumulation;
      const PlanPoint point = run->point.PointUnder(cluster, state);
      const double bytes = EstimateMemory(point, run->account, BlocksOfStages(point), clock).reported;
      residuals.push_back(std::log(bytes / run->memory));
    }
    return residuals;
  };
  const LeastSquaresFit fit = Solve(problem);
  calibration.memory = Moved(stack.memory, fit.x);
  calibration.memory_spread = SpreadOfResiduals(fit.residuals, known, calibration.memory_spread);
}

}  // namespace

namespace {

StackCalibration Uncalibrated(const std::vector<Cluster>& clusters, const SoftwareStack& stack, const Runs& runs) {
  return {.cluster = runs.empty() ? "" : clusters[static_cast<std::size_t>(runs.front()->point.cluster)].site,
          .efficiencies = stack.defaults,
          .memory = stack.memory,
          .spread = stack.default_spread,
          .memory_spread = 0.15,
          .paired_spread = stack.default_paired_spread};
}

}  // namespace

TensorWait TensorWaitOf(const RunPoint& point, const Cluster& cluster) {
  const ParallelLayout& layout = point.config.layout;
  if (layout.tensor > cluster.devices_per_node) {
    return TensorWait::kNodes;
  }
  return layout.tensor > 1 && StagesCrossNodes(cluster, layout) ? TensorWait::kStages : TensorWait::kNone;
}

StackCalibration Calibrate(const std::vector<Cluster>& clusters, const SoftwareStack& stack, const Runs& runs,
                           PipelineClock& clock, const StackCalibration* start, double noise) {
  StackCalibration calibration = Uncalibrated(clusters, stack, runs);
  const Runs timed = TimedOf(runs);
  if (!timed.empty()) {
    const TimeFit fit{clusters, stack, clock, noise};
    const std::vector<double> residuals = fit.Move(timed, DeviationsOf(EfficiencyFields()), start, calibration);
    calibration.spread = SpreadOfResiduals(residuals, timed, stack.default_spread);
    calibration.paired_spread = PairedSpread(residuals, timed, stack.default_paired_spread);
    calibration.runs = static_cast<int>(timed.size());
  }
  FitMemory(clusters, stack, runs, clock, calibration);
  return calibration;
}

StackCalibration CalibrateByCause(const std::vector<Cluster>& clusters, const SoftwareStack& stack, const Runs& runs,
                                  PipelineClock& clock, double noise) {
  StackCalibration calibration = Uncalibrated(clusters, stack, runs);
  const TimeFit fit{clusters, stack, clock, noise};
  Runs plain;
  Runs waiting;
  for (const PricedRun* run : TimedOf(runs)) {
    const Cluster& cluster = clusters[static_cast<std::size_t>(run->point.cluster)];
    (TensorWaitOf(run->point, cluster) == TensorWait::kNone ? plain : waiting).push_back(run);
  }
  if (plain.size() < waiting.size()) {
    // Too little is known of the rest to tell a wait from it.
    plain.insert(plain.end(), waiting.begin(), waiting.end());
    fit.Move(plain, DeviationsOf(EfficiencyFields()), nullptr, calibration);
    waiting.clear();
  } else if (!plain.empty()) {
    fit.Move(plain, DeviationsOf(false), nullptr, calibration);
    if (!waiting.empty()) {
      fit.Move(waiting, DeviationsOf(true), nullptr, calibration);
    }
  }
  calibration.runs = static_cast<int>(plain.size() + waiting.size());
  FitMemory(clusters, stack, runs, clock, calibration);
  return calibration;
}

StackState StateFor(const SoftwareStack& stack, const Cluster& cluster, const MeasuredRun& run,
                    const StackCalibration* calibration) {
  return Resolve(stack, cluster, {.date = run.date, .note = run.note}, calibration);
}

}  // namespace trireme
