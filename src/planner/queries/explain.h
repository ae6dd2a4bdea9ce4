// One layout in full: memory of each stage, where the seconds of a step go, what is wrong with it, and which single
// change would gain most.
#pragma once

#include <string>
#include <vector>

#include "planner/pricing/step_estimate.h"
#include "planner/search/search.h"

namespace trireme {

struct SingleChange {
  std::string what;
  Candidate candidate;
  double gain = 0;  // share of the step's seconds
};

// The ranks of the context axis given to another axis.
struct AxisTrade {
  std::string axis;
  ParallelLayout layout;
  double seconds = 0;   // 0: the layout is not possible
  double peak = 0;      // bytes of the fullest device
  std::string refusal;  // why it is not possible, or does not fit
};

struct Explanation {
  Candidate candidate;
  StepEstimate estimate;
  std::vector<std::string> warnings;
  std::vector<SingleChange> changes;  // that fit and gain, best first
  std::vector<AxisTrade> instead;     // of the context axis, where the layout has it
  // What the head size costs: seconds of attention beyond an aligned one; 0 when aligned.
  double misalignment = 0;
  double wave_loss = 0;  // seconds that partly filled tiles and waves cost
};

// Requires RequirePossible(request, layout).
Explanation Explain(const SearchRequest& request, const ParallelLayout& layout);
// With tokens above 0 days of a training too. Lines have at most 100 columns.
std::string ToText(const Explanation& explanation, const SearchRequest& request, double tokens = 0);
std::string ToJson(const Explanation& explanation, const SearchRequest& request);

// Layouts that differ from `layout` by one choice and suit the request, each with a word about it.
std::vector<std::pair<std::string, ParallelLayout>> Neighbours(const SearchRequest& request,
                                                               const ParallelLayout& layout);

}  // namespace trireme
