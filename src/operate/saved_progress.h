// How far a run has come, to and from the words of a checkpoint.
#pragma once

#include "operate/run_checkpoints.h"
#include "train/trainer.h"

namespace trireme {

// `rate_factor`: what train.on_spike = "lower" has made of the learning rate.
SavedProgress ProgressToSave(Trainer& trainer, double rate_factor);
// An Error when a note of the checkpoint is damaged.
Progress SavedTrainerProgress(const SavedProgress& saved);
double SavedRateFactor(const SavedProgress& saved);

}  // namespace trireme
