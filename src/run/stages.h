// A run in stages (train.stages): settings that hold until so many samples are consumed, such as a shorter sequence (a
// curriculum), a smaller batch or another layout. The recipe itself is the last stage. A run goes from one stage to the
// next through a checkpoint, which any layout reads, on as many ranks as the next one has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "run/run_config.h"

namespace trireme {

struct RunStage {
  std::int64_t until = 0;             // samples consumed at its end; 0: the end of the run
  std::vector<std::string> settings;  // "key=value", as --set takes them
};

// In their order, the recipe itself last. An Error names the part that is no stage, a key that may not change, or an
// end that does not grow.
std::vector<RunStage> ParseStages(const std::string& text);

// Checks the stages of one run against each other: no length in tokens, positions that are not learned where the
// sequence changes. `configs` are validated each.
void RequireStages(const std::vector<RunStage>& stages, const std::vector<RunConfig>& configs);

// The stage of a run that has consumed so many samples.
std::size_t StageAt(const std::vector<RunStage>& stages, std::int64_t consumed_samples);

}  // namespace trireme
