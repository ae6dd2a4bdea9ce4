#include "operate/saved_progress.h"

#include <fmt/format.h>

#include <sstream>

#include "base/error.h"

namespace trireme {
namespace {

constexpr char kRateFactorNote[] = "rate_factor";
// What a dynamic loss scale counts, besides itself.
constexpr char kLossScaleNote[] = "loss_scale_counters";

LossScaleState SavedLossScale(const SavedProgress& progress) {
  const auto counters = progress.notes.find(kLossScaleNote);
  if (counters == progress.notes.end()) {
    return {};
  }
  LossScaleState state{.scale = progress.loss_scale};
  std::istringstream words(counters->second);
  words >> state.good_steps >> state.left;
  Require(!words.fail(), "the checkpoint's note {} = '{}' is damaged: two numbers are expected", kLossScaleNote,
          counters->second);
  return state;
}

}  // namespace

SavedProgress ProgressToSave(Trainer& trainer, double rate_factor) {
  const Progress& progress = trainer.progress();
  SavedProgress saved{.step = progress.step,
                      .consumed_samples = progress.consumed_samples,
                      .updates = progress.updates,
                      .schedule = trainer.schedule().StateAt(progress.consumed_samples),
                      .device_choices = trainer.device().choices()};
  if (trainer.loss_scaler().dynamic()) {
    saved.loss_scale = progress.loss_scale.scale;
    saved.notes[kLossScaleNote] = fmt::format("{} {}", progress.loss_scale.good_steps, progress.loss_scale.left);
  }
  if (rate_factor != 1) {
    saved.notes[kRateFactorNote] = fmt::format("{}", rate_factor);
  }
  return saved;
}

Progress SavedTrainerProgress(const SavedProgress& saved) {
  return {.step = saved.step,
          .consumed_samples = saved.consumed_samples,
          .updates = saved.updates,
          .loss_scale = SavedLossScale(saved)};
}

double SavedRateFactor(const SavedProgress& saved) {
  const auto lowered = saved.notes.find(kRateFactorNote);
  return lowered == saved.notes.end() ? 1.0 : std::stod(lowered->second);
}

}  // namespace trireme
