// How far a run has come, to and from the words of a checkpoint.
#pragma once

#include "operate/number_watch.h"
#include "operate/run_checkpoints.h"
#include "train/trainer.h"

namespace trireme {

SavedProgress ProgressToSave(Trainer& trainer, const NumberMemory& numbers);
// These throw an Error when a note of the checkpoint is damaged.
Progress SavedTrainerProgress(const SavedProgress& saved);
// What the checkpoint has of it; where it has no means, those of `now`.
NumberMemory SavedNumbers(const SavedProgress& saved, const NumberMemory& now);
// Whether a checkpoint has the means: those of versions before November 2026 have not.
bool HasNumbers(const SavedProgress& saved);

}  // namespace trireme
