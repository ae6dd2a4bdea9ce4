// How sure a prediction is: the spread of every efficiency, before or after runs were seen, carried through the step's
// seconds. A run that leans on a number that sites disagree about has a wide interval.
#pragma once

#include <vector>

#include "planner/pricing/memory_estimate.h"
#include "planner/pricing/pipeline_time.h"
#include "planner/pricing/plan_point.h"

namespace trireme {

// What remains when every efficiency is known: repeats, and what the model leaves out. As large as fits take it.
inline constexpr double kModelNoise = 0.05;

// Derivatives of the logarithm of a step's seconds by the logarithm of each efficiency, in the order of
// EfficiencyFields().
std::vector<double> Sensitivities(const PlanPoint& point, const ModelAccount& account, PipelineClock& clock);

// Square, row after row: what sites differ by before any run was seen.
std::vector<double> PriorCovariance();
// The covariance after one more run with these sensitivities was seen.
void Learn(const std::vector<double>& sensitivities, double noise, std::vector<double>& covariance);
// Variance of the logarithm of seconds that the covariance leaves, without noise.
double Variance(const std::vector<double>& sensitivities, const std::vector<double>& covariance);
// a^T covariance b.
double Covariance(const std::vector<double>& a, const std::vector<double>& b, const std::vector<double>& covariance);

// Half of an interval that holds 80 %, relative, as StackState::spread.
double SpreadOf(double variance);

// The spread of a step that is priced by what sites differ by, or by its stack's calibration for the machine.
double SpreadOf(const PlanPoint& point, const ModelAccount& account, PipelineClock& clock);

// Deviation of the logarithm of two steps' ratio on one machine, by their sensitivities: what moves both cancels.
double PairedDeviation(const std::vector<double>& a, const std::vector<double>& b,
                       const std::vector<double>& covariance);
// How much slower than the faster of two the one predicted to be faster is on average, relative: `seconds` and `other`
// predicted, the logarithm of their ratio as sure as `deviation` says. 0 where it is surely the faster.
double ExpectedRegret(double seconds, double other, double deviation);

// How sure it is that a run fits: `peak` predicted bytes, of which 80 % of real ones lie within 1 + spread. To six
// digits: libraries of C differ in the last bits of erfc, and pages print what the command prints.
double FitProbability(double peak, double usable, double spread);
// A layout that does not fit costs a failed start; one that is refused wrongly costs a better layout for the whole run,
// taken as three times as dear. Below this probability a run is called out of memory.
inline constexpr double kFitsFrom = 0.25;

}  // namespace trireme
