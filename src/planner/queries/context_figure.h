// A drawing of the context axis for `plan --layout`: which rank holds which chunks of a sequence, how even causal
// attention is among them, and what a block moves between them.
#pragma once

#include <string>

#include "planner/pricing/plan_point.h"

namespace trireme {

// "" where the layout does not divide sequences.
std::string ContextFigure(const PlanPoint& point);

}  // namespace trireme
