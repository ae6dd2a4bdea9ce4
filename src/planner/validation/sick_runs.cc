#include "planner/validation/sick_runs.h"

#include <cmath>
#include <cstdlib>

#include "planner/validation/scores.h"

namespace trireme {
namespace {

constexpr double kSick = 2;          // measured over predicted
constexpr double kBesideOthers = 2;  // and over the median of its neighbours
constexpr double kNear = 2;          // doublings along the axes

// No link takes so long for a message beyond its bytes: programs that hang and go on do.
constexpr double kLongestMessage = 0.2;

// Seconds beyond the prediction for each message that a stage sends or receives; 0 without a pipeline.
double MessageExcess(const PricedRun& run, double predicted) {
  const RunConfig& config = run.point.config;
  if (config.layout.pipeline < 2) {
    return 0;
  }
  const int neighbours = config.layout.pipeline > 2 ? 2 : 1;
  const auto micro_batches =
      static_cast<double>(config.batch.global) / (static_cast<double>(config.layout.micro_batch) * config.layout.data);
  return (run.seconds - predicted) / (2 * neighbours * micro_batches);
}

bool SameWork(const MeasuredRun& a, const MeasuredRun& b) {
  return a.source == b.source && a.table == b.table && a.sequence == b.sequence && a.dtype == b.dtype &&
         a.global_batch == b.global_batch;
}

double Doublings(double a, double b) { return std::abs(std::log2(a / b)); }

double Distance(const RunPoint& a, const RunPoint& b) {
  return Doublings(a.config.layout.tensor, b.config.layout.tensor) +
         Doublings(a.config.layout.pipeline, b.config.layout.pipeline) +
         Doublings(a.config.layout.micro_batch, b.config.layout.micro_batch) +
         Doublings(a.config.layout.ranks(), b.config.layout.ranks());
}

}  // namespace

std::vector<bool> FindSick(const std::vector<const PricedRun*>& runs, const std::vector<double>& predicted) {
  std::vector<bool> sick(runs.size(), false);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const double own = runs[i]->seconds / predicted[i];
    if (runs[i]->seconds <= 0 || own <= kSick) {
      continue;
    }
    if (MessageExcess(*runs[i], predicted[i]) > kLongestMessage) {
      sick[i] = true;
      continue;
    }
    std::vector<double> others;
    for (std::size_t k = 0; k < runs.size(); ++k) {
      if (k != i && runs[k]->seconds > 0 && SameWork(*runs[i]->point.run, *runs[k]->point.run) &&
          Distance(runs[i]->point, runs[k]->point) <= kNear) {
        others.push_back(runs[k]->seconds / predicted[k]);
      }
    }
    sick[i] = others.size() >= 2 && own > kBesideOthers * Median(others);
  }
  return sick;
}

}  // namespace trireme
