// What the planner knows of the machine that the program runs on.
#pragma once

#include <optional>
#include <string>

#include "report/prediction.h"

namespace trireme {

// The calibration of this machine with `device` (auto | cpu | cuda), and our own stack; none where there is no file.
std::optional<PredictionGround> CalibratedMachine(const std::string& device, const std::string& stacks_folder = "");
// The same at the speed that the cores have now (measure/pace.h), for a run that begins; or, where there is no file,
// the shipped cluster file of its accelerator; none where no file fits.
std::optional<PredictionGround> ThisMachine(const std::string& device);
// The cluster of train.device = "paced": data-sheet figures, without what `trireme calibrate` has measured.
PredictionGround PacedMachine(const std::string& cluster);

}  // namespace trireme
