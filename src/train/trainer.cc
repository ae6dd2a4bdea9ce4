#include "train/trainer.h"

#include <cmath>
#include <utility>

#include "base/error.h"
#include "train/rerun.h"
#include "train/state_checks.h"
#include "train/step_stats.h"

namespace trireme {

Trainer::Trainer(const RunConfig& config, RankContext& context, const Sources& sources)
    : parts_(config, context),
      sources_(sources),
      schedule_(config),
      scaler_(config.train),
      gpu_(parts_.comms(), parts_.device()),
      recorder_(parts_, gpu_, scaler_.dynamic()),
      progress_{.loss_scale = scaler_.state()},
      skip_steps_(config.train.skip_steps) {}

void Trainer::set_ledger(Ledger* ledger) {
  ledger_ = ledger;
  recorder_.set_ledger(ledger);
}

void Trainer::Mark(std::string_view phase) {
  if (ledger_ != nullptr) {
    ledger_->SetPhase(progress_.step + 1, phase);
  }
}

int Trainer::NextMicroBatches() const {
  return MicroBatches(config().layout, schedule_.GlobalBatchAt(progress_.consumed_samples));
}

StepResult Trainer::Step(int request) {
  const double started = device().Now();
  const std::int64_t first = progress_.consumed_samples;
  const int micro_batches = NextMicroBatches();
  StepResult result;
  result.step = progress_.step + 1;
  result.global_batch = schedule_.GlobalBatchAt(first);
  result.learning_rate = rate_factor_ * schedule_.LearningRateAt(first);
  if (IsPassedOver(result.step)) {
    return Skip(result, request);
  }

  // 1. Batch.
  std::vector<MicroBatch> batch = LoadBatch(result);
  gpu_.BeginPass(micro_batches);
  // 2. Parameters present: modules gather what ZeRO shards as the pipeline comes to them. 3. Pipeline. 4. Gradients.
  Compute(std::move(batch), result.step);
  // 5. Norm and clip: the numbers that decide about the update.
  double unscale = ReduceStepStats(result, micro_batches, request);
  unscale = CheckSuspicion(result, first, micro_batches, unscale);
  AdaptLossScale(result);
  result.vetoed = !result.skipped && veto_ && veto_(result);
  // 6. Update. 7. Parameters again.
  Update(result, unscale);
  gpu_.EndPass();
  // 8. Record.
  Advance(result);
  result.seconds = device().Now() - started;
  return result;
}

StepResult Trainer::Skip(StepResult result, int request) {
  Mark(kFirstPhase);
  result.request = SumStepStats(parts_, 0, false, request).request;
  result.skipped = result.passed_over = true;
  result.loss_scale = scaler_.scale();
  parts_.zero().ResetCompression();
  Consume(result.global_batch);
  Advance(result);
  return result;
}

std::vector<MicroBatch> Trainer::LoadBatch(StepResult& result) {
  Mark(kFirstPhase);
  BatchLoader& loader = parts_.loader();
  std::vector<MicroBatch> batch = loader.LoadTraining(*sources_.train, progress_.consumed_samples, NextMicroBatches());
  result.balance = loader.balance();
  Consume(result.global_batch);
  loader.Prepare(*sources_.train, progress_.consumed_samples, NextMicroBatches());
  return batch;
}

void Trainer::Consume(std::int64_t samples) {
  progress_.consumed_samples += samples;
  progress_.consumed_tokens += samples * config().model.sequence;
}

void Trainer::Advance(StepResult& result) {
  ++progress_.step;
  static_cast<RunPosition&>(result) = progress_;
}

void Trainer::Compute(std::vector<MicroBatch> batch, std::int64_t step) {
  for (MicroBatch& micro_batch : batch) {
    micro_batch.gradient_factor *= static_cast<float>(scaler_.scale());
  }
  parts_.zero().InvalidateMasters();
  gpu_.BeginTogether();
  recorder_.Run(batch, step);
  // ZeRO 2 and 3 have begun their reductions during backward.
  Mark("reduce");
  parts_.zero().FinishGradients();
}

double Trainer::ReduceStepStats(StepResult& result, int micro_batches, int request) {
  Mark("norm");
  const auto [loss, weight, square, asked] = SumStepStats(parts_, micro_batches, true, request);
  result.request = asked;
  result.loss_scale = scaler_.scale();
  if (weight == 0) {
    result.skipped = result.passed_over = result.without_targets = true;
    return 1 / scaler_.scale();
  }
  // Micro batches were scaled as if no token was masked; the true weight is known only now.
  const double unscaled =
      static_cast<double>(result.global_batch) * static_cast<double>(config().model.sequence) / weight;
  const double correction = unscaled / scaler_.scale();
  result.loss = loss / weight;
  result.gradient_norm = std::sqrt(square) * correction;
  result.skipped = !std::isfinite(result.gradient_norm) || !std::isfinite(result.loss);
  result.zeros = config().train.count_zeros ? CountZeros(parts_) : 0;
  return correction;
}

double Trainer::CheckSuspicion(StepResult& result, std::int64_t first, int micro_batches, double unscale) {
  if (result.passed_over || !suspicion_ || !suspicion_(result)) {
    return unscale;
  }
  const int request = result.request;
  return Rerun(parts_, result, first, micro_batches, [&](StepResult& into, BatchPlace place) {
    BatchLoader& loader = parts_.loader();
    Compute(place == BatchPlace::kOwn ? loader.LoadTraining(*sources_.train, first, micro_batches)
                                      : loader.LoadMoved(*sources_.train, first, micro_batches),
            into.step);
    const double factor = ReduceStepStats(into, micro_batches, 0);
    into.request = request;
    return factor;
  });
}

void Trainer::AdaptLossScale(StepResult& result) {
  if (result.passed_over) {
    return;
  }
  const double before = scaler_.scale();
  result.overflowed = result.skipped && scaler_.dynamic();
  scaler_.Update(result.step, result.skipped);
  progress_.loss_scale = scaler_.state();
  if (scaler_.scale() != before) {
    parts_.zero().RescaleResiduals(static_cast<float>(scaler_.scale() / before));
  }
}

void Trainer::Update(const StepResult& result, double unscale) {
  const double clip = config().optimizer.clip;
  const double factor = clip > 0 && result.gradient_norm > clip ? clip / result.gradient_norm : 1.0;
  if (before_update_) {
    before_update_(result, unscale);
  }
  Mark("update");
  if (!result.skipped && !result.vetoed && result.verdict.cause != Cause::kLasting) {
    parts_.zero().Update(static_cast<float>(result.learning_rate), static_cast<float>(unscale * factor),
                         ++progress_.updates);
  } else {
    parts_.zero().ResetCompression();
  }
  device().Synchronize();
  parts_.comms().CheckAborted();
}

std::optional<double> Trainer::Validate() {
  Require(sources_.validation != nullptr, "validation was asked for, but the run has no validation source");
  return ValidationLoss(parts_, gpu_, *sources_.validation);
}

void Trainer::Restore(const Progress& progress) {
  progress_ = progress;
  scaler_.Restore(progress.loss_scale);
  progress_.loss_scale = scaler_.state();
  parts_.zero().ResetCompression();
  parts_.zero().Publish();
}

}  // namespace trireme
