#include "planner/validation/choose_runs.h"

#include <algorithm>

#include "planner/pricing/interval.h"

namespace trireme {
namespace {

using Runs = std::vector<const PricedRun*>;

bool Repeats(const PricedRun& run, const Runs& chosen) {
  const RunConfig& own = run.point.config;
  return std::any_of(chosen.begin(), chosen.end(), [&](const PricedRun* other) {
    const RunConfig& config = other->point.config;
    return config.layout.ToString() == own.layout.ToString() && config.model.layers == own.model.layers &&
           config.model.hidden == own.model.hidden && config.train.dtype == own.train.dtype;
  });
}

bool IsChosen(const Choosable& one, const Runs& chosen) {
  return std::find(chosen.begin(), chosen.end(), one.run) != chosen.end();
}

// How much doubt about all runs one more run would take.
double Gain(const Choosable& one, const std::vector<Choosable>& all, double noise,
            const std::vector<double>& covariance) {
  double gain = 0;
  for (const Choosable& other : all) {
    const double shared = Covariance(one.slopes, other.slopes, covariance);
    gain += shared * shared;
  }
  return gain / (Variance(one.slopes, covariance) + noise * noise);
}

// The kinds of the first choices; those after them are plain.
std::vector<TensorWait> KindsOf(const std::vector<Choosable>& runs) {
  std::vector<TensorWait> kinds;
  for (const TensorWait wait : {TensorWait::kStages, TensorWait::kNodes}) {
    if (std::any_of(runs.begin(), runs.end(), [&](const Choosable& one) { return one.wait == wait; })) {
      kinds.push_back(wait);
    }
  }
  return kinds;
}

}  // namespace

std::vector<const PricedRun*> ChooseRuns(const std::vector<Choosable>& runs, int count, double noise,
                                         std::vector<double>& covariance) {
  const std::vector<TensorWait> kinds = KindsOf(runs);
  Runs chosen;
  const auto best = [&](auto suits) {
    const Choosable* found = nullptr;
    double most = -1;
    for (const Choosable& one : runs) {
      const double gain = IsChosen(one, chosen) || !suits(one) ? -1 : Gain(one, runs, noise, covariance);
      if (gain > most) {
        most = gain;
        found = &one;
      }
    }
    return found;
  };
  while (chosen.size() < std::min(runs.size(), static_cast<std::size_t>(count))) {
    const TensorWait kind = chosen.size() < kinds.size() ? kinds[chosen.size()] : TensorWait::kNone;
    const Choosable* next = best([&](const Choosable& one) { return one.wait == kind && !Repeats(*one.run, chosen); });
    next = next != nullptr ? next : best([&](const Choosable& one) { return !Repeats(*one.run, chosen); });
    next = next != nullptr ? next : best([](const Choosable&) { return true; });
    chosen.push_back(next->run);
    Learn(next->slopes, noise, covariance);
  }
  return chosen;
}

}  // namespace trireme
