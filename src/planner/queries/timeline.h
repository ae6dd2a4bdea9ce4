// A step over time: the trainer's schedule played with the estimate's costs, as text and as a Chrome/Perfetto trace. It
// ends after the estimate's seconds.
#pragma once

#include <string>

#include "planner/pricing/step_estimate.h"
#include "planner/queries/trace_file.h"

namespace trireme {

// Rows of stages, `columns` characters wide: digits are forwards, letters backwards, '.' is idle.
std::string TimelineText(const ParallelLayout& layout, const StepEstimate& estimate, std::int64_t micro_batches,
                         int columns = 120);
// As a process "predicted" of the trace: for each stage a track of its computation and, where it sends, one of the
// activations and one of the gradients.
void AddTimeline(const ParallelLayout& layout, const StepEstimate& estimate, std::int64_t micro_batches,
                 TraceFile& trace);
// JSON for chrome://tracing and Perfetto: that process alone.
std::string TimelineTrace(const ParallelLayout& layout, const StepEstimate& estimate, std::int64_t micro_batches);

}  // namespace trireme
