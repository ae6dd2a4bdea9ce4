// The machine that the program runs on: its report, and what the planner knows of it.
#pragma once

#include <optional>
#include <string>

#include "comm/rank_runner.h"
#include "measure/machine.h"
#include "report/prediction.h"

namespace trireme {

// DescribeMachine with the pages of this program.
MachineReport ReportOfThisMachine();
// The calibration of this machine with `device` (auto | cpu | cuda), and our own stack; none where there is no file.
std::optional<PredictionContext> CalibratedMachine(const std::string& device, const std::string& stacks_folder = "");
// The machine's calibration or, where there is no file, the shipped cluster file of its accelerator; none where no file
// fits.
std::optional<PredictionContext> ThisMachine(const std::string& device);
// The context of a run that begins, at the speed that its cores have now: rank 0 gives what it found, or nothing, and
// has it changed. A calibration is scaled by the pace of the cores (measure/pace.h); where there is none, operations
// are timed for a tenth of a second (measure/brief_probe.h). What cannot be measured leaves it as it is. Collective
// over the world; accelerators, whose clocks a run's own load sets, leave it.
void ScaleToCurrentSpeed(RankContext& context, const RunConfig& config, std::optional<PredictionContext>& prediction);
// The cluster of train.device = "paced": data-sheet figures, without what `trireme calibrate` has measured.
PredictionContext PacedMachine(const std::string& cluster);

}  // namespace trireme
