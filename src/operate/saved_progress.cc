#include "operate/saved_progress.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "base/error.h"

namespace trireme {
namespace {

constexpr char kRateFactorNote[] = "rate_factor";
// What a dynamic loss scale counts, besides itself.
constexpr char kLossScaleNote[] = "loss_scale_counters";
// Running mean and count of the loss, then of the gradient norm.
constexpr char kMeansNote[] = "running_means";
constexpr char kPassedStepsNote[] = "passed_steps";

// Whether all that was asked for was there, and nothing else.
bool IsRead(std::istringstream& words) { return !words.fail() && (words >> std::ws).eof(); }

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

SavedProgress ProgressToSave(Trainer& trainer, const NumberMemory& numbers) {
  const Progress& progress = trainer.progress();
  SavedProgress saved{progress, progress.updates};
  saved.schedule = trainer.schedule().StateAt(progress.consumed_samples);
  saved.device_choices = trainer.device().choices();
  if (trainer.loss_scaler().dynamic()) {
    saved.loss_scale = progress.loss_scale.scale;
    saved.notes[kLossScaleNote] = fmt::format("{} {}", progress.loss_scale.good_steps, progress.loss_scale.left);
  }
  if (numbers.rate_factor != 1) {
    saved.notes[kRateFactorNote] = fmt::format("{}", numbers.rate_factor);
  }
  saved.notes[kMeansNote] =
      fmt::format("{} {} {} {}", numbers.loss.mean, numbers.loss.seen, numbers.norm.mean, numbers.norm.seen);
  if (!numbers.passed_steps.empty()) {
    saved.notes[kPassedStepsNote] = fmt::format("{}", fmt::join(numbers.passed_steps, " "));
  }
  return saved;
}

Progress SavedTrainerProgress(const SavedProgress& saved) { return {saved, saved.updates, SavedLossScale(saved)}; }

bool HasNumbers(const SavedProgress& saved) { return saved.notes.count(kMeansNote) > 0; }

NumberMemory SavedNumbers(const SavedProgress& saved, const NumberMemory& now) {
  NumberMemory memory{.loss = now.loss, .norm = now.norm};
  if (const auto note = saved.notes.find(kRateFactorNote); note != saved.notes.end()) {
    std::istringstream words(note->second);
    words >> memory.rate_factor;
    Require(IsRead(words) && memory.rate_factor > 0 && memory.rate_factor <= 1,
            "the checkpoint's note {} = '{}' is damaged: a number above 0 and up to 1 is expected", kRateFactorNote,
            note->second);
  }
  if (const auto note = saved.notes.find(kMeansNote); note != saved.notes.end()) {
    std::istringstream words(note->second);
    words >> memory.loss.mean >> memory.loss.seen >> memory.norm.mean >> memory.norm.seen;
    Require(IsRead(words) && memory.loss.seen >= 0 && memory.norm.seen >= 0,
            "the checkpoint's note {} = '{}' is damaged: a mean and a count, twice, are expected", kMeansNote,
            note->second);
  }
  if (const auto note = saved.notes.find(kPassedStepsNote); note != saved.notes.end()) {
    std::istringstream words(note->second);
    for (std::int64_t step = 0; words >> step;) {
      memory.passed_steps.insert(step);
    }
    Require(words.eof(), "the checkpoint's note {} = '{}' is damaged: numbers of steps are expected", kPassedStepsNote,
            note->second);
  }
  return memory;
}

}  // namespace trireme
