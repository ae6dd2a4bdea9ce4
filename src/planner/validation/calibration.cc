#include "planner/validation/calibration.h"

#include <algorithm>
#include <cmath>
#include <set>

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

// Half of an interval that holds 80 % of the residuals. Runs of one table share their day and their operator, so that a
// new table differs more than a new run: the fewer tables were seen, the wider.
double SpreadOfResiduals(const std::vector<double>& residuals, const std::vector<const PricedRun*>& runs,
                         double fallback) {
  if (residuals.size() < 3) {
    return fallback;
  }
  std::vector<double> sizes;
  for (const double residual : residuals) {
    sizes.push_back(std::abs(residual));
  }
  std::sort(sizes.begin(), sizes.end());
  const double count = static_cast<double>(sizes.size());
  const auto at = static_cast<std::size_t>(std::min(0.8 * (count + 1), count) - 1);
  std::set<std::string> tables;
  for (const PricedRun* run : runs) {
    tables.insert(run->point.run->source + run->point.run->table);
  }
  return std::max(kLeastSpread, std::expm1(sizes[at] * (1 + 2.5 / static_cast<double>(tables.size()))));
}

template <typename Fields>
std::vector<double> DeviationsOf(const Fields& fields) {
  std::vector<double> deviations;
  for (const auto& field : fields) {
    deviations.push_back(field.deviation);
  }
  return deviations;
}

void FitTime(const std::vector<Cluster>& clusters, const SoftwareStack& stack,
             const std::vector<const PricedRun*>& runs, PipelineClock& clock, const StackCalibration* start,
             double noise, StackCalibration& calibration) {
  std::vector<const PricedRun*> timed;
  for (const PricedRun* run : runs) {
    if (run->seconds > 0) {
      timed.push_back(run);
    }
  }
  if (timed.empty()) {
    return;
  }
  LeastSquares problem;
  problem.deviations = DeviationsOf(EfficiencyFields());
  problem.noise = noise;
  problem.residuals = [&](const std::vector<double>& x) {
    const Efficiencies moved = Moved(stack.defaults, x);
    std::vector<double> residuals;
    for (const PricedRun* run : timed) {
      const Cluster& cluster = clusters[static_cast<std::size_t>(run->point.cluster)];
      StackState state = StateFor(stack, cluster, run->point.run->date, nullptr);
      state.efficiencies = moved;
      const double seconds = EstimateTime(run->point.PointUnder(cluster, state), run->account, clock).seconds;
      residuals.push_back(std::log(seconds / run->seconds));
    }
    return residuals;
  };
  std::vector<double> from;
  if (start != nullptr) {
    for (const EfficiencyField& field : EfficiencyFields()) {
      from.push_back(std::log(start->efficiencies.*field.member / stack.defaults.*field.member));
    }
    problem.iterations = 4;
  }
  const LeastSquaresFit fit = Solve(problem, from);
  calibration.efficiencies = Moved(stack.defaults, fit.x);
  calibration.spread = SpreadOfResiduals(fit.residuals, timed, stack.default_spread);
  calibration.runs = static_cast<int>(timed.size());
}

void FitMemory(const std::vector<Cluster>& clusters, const SoftwareStack& stack,
               const std::vector<const PricedRun*>& runs, PipelineClock& clock, StackCalibration& calibration) {
  // Of exact counts there is nothing to fit.
  const auto counts = [&](const PricedRun& run) {
    const Cluster& cluster = clusters[static_cast<std::size_t>(run.point.cluster)];
    return ChoosePrices(cluster, StateFor(stack, cluster, run.point.run->date, nullptr), DTypeOf(run.point.config))
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
      StackState state = StateFor(stack, cluster, run->point.run->date, nullptr);
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

StackCalibration Calibrate(const std::vector<Cluster>& clusters, const SoftwareStack& stack,
                           const std::vector<const PricedRun*>& runs, PipelineClock& clock,
                           const StackCalibration* start, double noise) {
  StackCalibration calibration{
      .cluster = runs.empty() ? "" : clusters[static_cast<std::size_t>(runs.front()->point.cluster)].site,
      .efficiencies = stack.defaults,
      .memory = stack.memory,
      .spread = stack.default_spread,
      .memory_spread = 0.15};
  FitTime(clusters, stack, runs, clock, start, noise, calibration);
  FitMemory(clusters, stack, runs, clock, calibration);
  return calibration;
}

StackState StateFor(const SoftwareStack& stack, const Cluster& cluster, const std::string& date,
                    const StackCalibration* calibration) {
  StackState state = Resolve(stack, cluster, date);
  if (calibration != nullptr) {
    const double accumulation = state.memory.accumulation;
    state.efficiencies = calibration->efficiencies;
    state.memory = calibration->memory;
    state.memory.accumulation = accumulation;
    state.spread = calibration->spread;
    state.memory_spread = calibration->memory_spread;
    state.calibrated = true;
  }
  return state;
}

}  // namespace trireme
