// What a layer with experts costs in a program that divides them over an axis of their own (layout.expert): every rank
// of an expert group holds some experts, whole or a part of their width, and rows of tokens travel to them and back.
#pragma once

#include "planner/pricing/module_time.h"

namespace trireme {

// The part that one rank has of the experts, and of the rows of a micro batch.
struct ExpertShare {
  std::int64_t experts = 0;  // held
  std::int64_t width = 0;    // of each
  double leaving = 0;        // rows of the rank's own tokens: tokens x experts per token
  double rows = 0;           // rows of the experts that it holds, on average over the group
  double imbalance = 1;      // rows of the busiest rank over the average

  // Rows of each expert on the busiest rank.
  std::int64_t rows_of_each() const;
};
// sizes: of a block with experts.
ExpertShare ShareOfExperts(const PlanPoint& point, const LocalSizes& sizes);

// Rows of the busiest rank over the mean. Popularities of experts with `variation` (standard deviation over the mean)
// and tokens that choose at random spread by sqrt(variation^2 * ranks / experts + 1 / rows), of which the busiest of
// `ranks` takes as many as the largest of so many normal numbers.
double BusiestShare(double variation, int ranks, std::int64_t experts, double rows);

// Added to `time`: products of experts (returns the seconds of forward's last one), kernels that move rows, and
// exchanges of rows, forward and backward.
double AddExperts(const PlanPoint& point, const LocalSizes& sizes, ModuleTime& time);
// Seconds that the host takes to issue what experts add to a layer's forward.
double ExpertIssueSeconds(const PlanPoint& point, const LocalSizes& sizes);

}  // namespace trireme
