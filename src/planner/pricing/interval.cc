#include "planner/pricing/interval.h"

#include <algorithm>
#include <cmath>

#include "planner/pricing/step_estimate.h"

namespace trireme {
namespace {

constexpr double kProbabilitySteps = 1e6;
constexpr double kNudge = 1e-3;
constexpr double kEightOfTen = 1.2816;  // deviations on either side

}  // namespace

std::vector<double> Sensitivities(const PlanPoint& point, const ModelAccount& account, PipelineClock& clock) {
  const double seconds = EstimateTime(point, account, clock).seconds;
  std::vector<double> slopes;
  for (const EfficiencyField& field : EfficiencyFields()) {
    StackState state = point.stack;
    state.efficiencies.*field.member *= std::exp(kNudge);
    slopes.push_back(std::log(EstimateTime(point.Under(state), account, clock).seconds / seconds) / kNudge);
  }
  return slopes;
}

std::vector<double> PriorCovariance() {
  const std::vector<EfficiencyField>& fields = EfficiencyFields();
  const std::size_t n = fields.size();
  std::vector<double> covariance(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    covariance[i * n + i] = fields[i].deviation * fields[i].deviation;
  }
  return covariance;
}

double Covariance(const std::vector<double>& a, const std::vector<double>& b, const std::vector<double>& covariance) {
  const std::size_t n = a.size();
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    double row = 0;
    for (std::size_t j = 0; j < n; ++j) {
      row += covariance[i * n + j] * b[j];
    }
    sum += a[i] * row;
  }
  return sum;
}

double Variance(const std::vector<double>& sensitivities, const std::vector<double>& covariance) {
  return Covariance(sensitivities, sensitivities, covariance);
}

void Learn(const std::vector<double>& sensitivities, double noise, std::vector<double>& covariance) {
  const std::size_t n = sensitivities.size();
  std::vector<double> gain(n, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      gain[i] += covariance[i * n + j] * sensitivities[j];
    }
  }
  double total = noise * noise;
  for (std::size_t i = 0; i < n; ++i) {
    total += sensitivities[i] * gain[i];
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      covariance[i * n + j] -= gain[i] * gain[j] / total;
    }
  }
}

double SpreadOf(double variance) { return std::expm1(kEightOfTen * std::sqrt(variance + kModelNoise * kModelNoise)); }

double SpreadOf(const PlanPoint& point, const ModelAccount& account, PipelineClock& clock) {
  return point.stack.calibrated ? point.stack.spread
                                : SpreadOf(Variance(Sensitivities(point, account, clock), PriorCovariance()));
}

double PairedDeviation(const std::vector<double>& a, const std::vector<double>& b,
                       const std::vector<double>& covariance) {
  std::vector<double> apart(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    apart[i] = a[i] - b[i];
  }
  return std::sqrt(Variance(apart, covariance) + 2 * kModelNoise * kModelNoise);
}

double ExpectedRegret(double seconds, double other, double deviation) {
  const double lead = std::log(other / seconds);
  if (deviation <= 0) {
    return std::max(0.0, std::expm1(-lead));
  }
  const double units = lead / deviation;
  const double density = std::exp(-units * units / 2) / std::sqrt(2 * std::acos(-1.0));
  const double wrong = 0.5 * std::erfc(units / std::sqrt(2.0));
  return std::expm1(std::max(0.0, deviation * density - lead * wrong));
}

double FitProbability(double peak, double usable, double spread) {
  const double deviation = std::log1p(spread) / kEightOfTen;
  const double probability = 0.5 * std::erfc(-std::log(usable / peak) / deviation / std::sqrt(2.0));
  return std::round(kProbabilitySteps * probability) / kProbabilitySteps;
}

}  // namespace trireme
