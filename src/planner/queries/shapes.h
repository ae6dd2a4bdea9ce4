// Model shapes for a machine: proposals of a size that suit its matrix units, and the largest that fits.
#pragma once

#include <string>
#include <vector>

#include "planner/queries/shape_criteria.h"
#include "planner/search/search.h"

namespace trireme {

struct ShapeProposal {
  ModelConfig model;
  std::int64_t parameters = 0;
  Candidate best;    // its fastest layout
  std::string idle;  // how many devices are idle and why; "": none
};

// "200B", "1.3b", "760M", or plain digits.
std::int64_t ParseSize(const std::string& text);

// Shapes of about `parameters`, as the request's model in family, vocabulary and sequence, fastest in model TFLOP/s
// first. Hidden sizes are multiples of 512 (of 128 for small models); all else as the criteria say.
std::vector<ShapeProposal> SearchShapes(const SearchRequest& request, std::int64_t parameters, int keep,
                                        const ShapeCriteria& criteria = {});

// The largest model of a usual aspect (layers about hidden / 170) that some layout of the request holds.
ShapeProposal LargestModel(const SearchRequest& request);

// The most tokens of a sample, in steps of a sixteenth of their power of two, with which some layout of the request
// holds its model.
struct LongestSequence {
  std::int64_t tokens = 0;
  std::int64_t too_long = 0;  // the next step; no layout holds it
  Candidate best;             // the fastest layout
  std::string idle;           // how many devices are idle and why; "": none
};
LongestSequence FindLongestSequence(const SearchRequest& request);

std::string ToText(const std::vector<ShapeProposal>& proposals);
std::string ToText(const LongestSequence& longest);

}  // namespace trireme
