// A step over time: the trainer's schedule played with the estimate's costs, as text and as a Chrome/Perfetto trace.
#pragma once

#include <string>

#include "planner/step_estimate.h"

namespace trireme {

// Rows of stages, `columns` characters wide: digits are forwards, letters backwards, '.' is idle.
std::string TimelineText(const ParallelLayout& layout, const StepEstimate& estimate, std::int64_t micro_batches,
                         int columns = 120);
// JSON for chrome://tracing and Perfetto: a process a stage, compute and messages on tracks of their own.
std::string TimelineTrace(const ParallelLayout& layout, const StepEstimate& estimate, std::int64_t micro_batches);

}  // namespace trireme
