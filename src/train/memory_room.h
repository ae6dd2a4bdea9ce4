// Whether a run fits the memory it would take, known before a rank starts: memory is planned (cost/step_cost.h), so a
// model that is too large is refused while nothing has been written.
#pragma once

#include "run/run_config.h"

namespace trireme {

// Bytes that all ranks of a run hold together.
std::int64_t MemoryOfRun(const RunConfig& config);

// An Error when the ranks of a run that shares one host's memory of `host_bytes` need more, naming the nearest change
// of the layout with which they fit. Requires Validate(config, 0).
void RequireRoom(const RunConfig& config, std::int64_t host_bytes);

}  // namespace trireme
