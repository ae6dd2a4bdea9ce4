// DIR/trace.json: what all ranks did in the traced steps, one track per rank and stream, arrows from sends to receives,
// memory and micro batches in flight as counters, and the predicted timeline as a second process.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/accounting.h"
#include "planner/pricing/step_estimate.h"
#include "run/run_config.h"

namespace trireme {

struct TraceInput {
  RunConfig config;
  std::vector<MemoryUse> memory;          // by rank; may be empty
  std::optional<StepEstimate> predicted;  // of config.batch.global
};

// Reads the files that ranks wrote below FOLDER/trace/ and returns the trace. An Error when there are none.
std::string MergedTrace(const std::string& folder, const TraceInput& input);

}  // namespace trireme
