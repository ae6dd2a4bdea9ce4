// A chain of Slurm jobs of different sizes for a run in stages.
#pragma once

#include <string>

#include "planner/queries/emit.h"

namespace trireme {

// A job script that submits its own successor, on as many nodes as the run's next stage has: after a stage, after the
// time limit, and after a job that failed or was lost. It ends when the run has finished, when the disk has no room for
// the last checkpoint (exit code 5), and after three failures in a row without a new checkpoint. `devices` are those of
// the first stage; `script` is the path that it will be submitted by.
std::string EmitChain(const EmitRequest& request, int devices, const std::string& recipe_path,
                      const std::string& script);

}  // namespace trireme
