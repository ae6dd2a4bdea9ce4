#include "planner/queries/first_choice.h"

#include <algorithm>

#include "base/error.h"
#include "planner/pricing/interval.h"
#include "planner/pricing/step_estimate.h"

namespace trireme {
namespace {

constexpr std::size_t kRivals = 4;
constexpr double kWorthALine = 0.01;

}  // namespace

FirstChoice JudgeFirst(const SearchRequest& request, const std::vector<Candidate>& ranked) {
  FirstChoice choice;
  if (request.state.calibrated || ranked.size() < 2) {
    return choice;
  }
  const ModelAccount account(request.config.model);
  const std::vector<double> covariance = PriorCovariance();
  PipelineClock clock;
  const auto sensitivities = [&](const Candidate& candidate) {
    return Sensitivities(PointOf(request, candidate.layout), account, clock);
  };
  const std::vector<double> first = sensitivities(ranked.front());
  for (std::size_t i = 1; i < std::min(ranked.size(), kRivals); ++i) {
    const double deviation = PairedDeviation(first, sensitivities(ranked[i]), covariance);
    const double regret = ExpectedRegret(ranked.front().seconds, ranked[i].seconds, deviation);
    if (regret > choice.expected_regret) {
      choice = {.expected_regret = regret, .rival = static_cast<int>(i)};
    }
  }
  return choice;
}

std::string ToText(const FirstChoice& choice) {
  return choice.expected_regret < kWorthALine
             ? ""
             : fmt::format(
                   "expected regret of the first: {:.1f} % (against row {}); measure both, or five layouts for `plan "
                   "validate --fit 5`\n",
                   100 * choice.expected_regret, choice.rival + 1);
}

}  // namespace trireme
