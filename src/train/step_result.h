// What a training step was: equal on all ranks but for its seconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "run/run_schedule.h"
#include "train/work_balance.h"

namespace trireme {

// Why a step's numbers were suspicious, as computing it again showed.
enum class Cause : std::uint8_t {
  kNone,     // it was not computed again
  kPassing,  // other numbers the second time
  kLasting,  // other numbers on another data rank
  kData,     // the same numbers everywhere
  kRepeats,  // the same numbers, and there is no other data rank
};
struct Verdict {
  Cause cause = Cause::kNone;
  std::string text;
};

// Its position is that after the step; the first step is 1.
struct StepResult : RunPosition {
  double loss = 0;  // mean over the weights of the global batch
  double gradient_norm = 0;
  std::int64_t zeros = 0;  // elements of the gradient that are 0, where train.count_zeros asks for them
  double learning_rate = 0;
  std::int64_t global_batch = 0;
  bool skipped = false;          // no update was made, on any rank: a non-finite loss or gradient, or passed over
  bool overflowed = false;       // skipped, and a dynamic loss scale (fp16) has taken note of it
  double loss_scale = 1;         // of this step; losses, norms and zeros are those without it
  bool vetoed = false;           // finite, but set_veto's function refused the update, on every rank
  bool passed_over = false;      // there are no numbers: train.skip_steps names it, or it had no targets
  bool without_targets = false;  // passed over because no token of the batch had a loss
  Verdict verdict;
  std::optional<WorkBalance> balance;  // of attention within documents, where data.document_masks asks for them
  int request = 0;                     // the largest of the ranks' requests, see Trainer::Step
  double seconds = 0;
};

}  // namespace trireme
