#include "operate/training_loop.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <stop_token>
#include <thread>

#include "base/durable_file.h"
#include "base/error.h"
#include "base/units.h"
#include "operate/flight_recorder.h"
#include "operate/run_checkpoints.h"
#include "operate/spikes.h"
#include "operate/weight_dump.h"
#include "run/step_list.h"
#include "train/first_weights.h"
#include "train/gather_numbers.h"

namespace trireme {
namespace {

// What every rank holds, on every rank.
std::vector<MemoryUse> GatherMemory(Trainer& trainer) {
  const MemoryUse mine = trainer.Counted().memory;
  std::vector<MemoryUse> by_rank;
  for (const auto& bytes : GatherNumbers(trainer.world(), trainer.device(), {mine.bytes.begin(), mine.bytes.end()})) {
    std::copy(bytes.begin(), bytes.end(), by_rank.emplace_back().bytes.begin());
  }
  return by_rank;
}

// FLOPs of one step over all ranks; tensor and data ranks of a pipeline stage do the same.
double HardwareFlops(const RunConfig& config, std::int64_t global_batch) {
  double flops = 0;
  for (int pipeline = 0; pipeline < config.layout.pipeline; ++pipeline) {
    for (int context = 0; context < config.layout.context; ++context) {
      const StageOfRun stage(config, pipeline, global_batch, context);
      flops += static_cast<double>(CostOfStep(stage.description(), 0).flops.total()) * config.layout.tensor *
               config.layout.data;
    }
  }
  return flops;
}

// Requests that files in the run's folder make; rank 0 looks, and takes them away.
StopRequest RequestedByFile(const std::string& folder) {
  if (folder.empty()) {
    return StopRequest::kNone;
  }
  std::error_code ignored;
  if (std::filesystem::remove(folder + "/stop", ignored)) {
    return StopRequest::kSaveAndStop;
  }
  return std::filesystem::remove(folder + "/save", ignored) ? StopRequest::kSave : StopRequest::kNone;
}

}  // namespace

std::unique_ptr<SampleSource> OpenRunSource(const RunConfig& config, const std::string& split) {
  return OpenSource({.source = config.data.source,
                     .sequence = config.model.sequence,
                     .seed = static_cast<std::uint64_t>(config.train.seed),
                     .vocabulary = config.model.vocabulary,
                     .split = split,
                     .split_weights = config.data.split,
                     .document_masks = config.data.document_masks,
                     .answers_only = config.data.answers_only,
                     .padding_masks = config.data.padding_masks});
}

namespace {

// Steps that may fail again after going back before the fault counts as lasting.
constexpr int kMostRollbacks = 3;
// Of a checkpoint: what train.on_spike = "lower" has made of the learning rate.
constexpr char kRateFactorNote[] = "rate_factor";
// Of a checkpoint: what a dynamic loss scale counts, besides itself.
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

// A rank whose device is stuck reads no signals. Once the job was asked to end, collectives that stand still are
// aborted; those of a step that goes on are not.
void HurryWhenAsked(const StopSignals& signals, Communicator& world, const std::stop_token& stop) {
  constexpr auto kInterval = std::chrono::milliseconds(100);
  while (!stop.stop_requested()) {
    if (signals.Pending() == StopRequest::kSaveAndStop) {
      return world.Hurry();
    }
    std::this_thread::sleep_for(kInterval);
  }
}

// The state of one run of the loop; RunTraining is its one user.
class Loop {
 public:
  Loop(const RunConfig& config, RankContext& context, const Trainer::Sources& sources, const LoopOptions& options,
       TrainingObserver* observer)
      : config_(config),
        options_(options),
        first_rank_(context.world.rank() == 0),
        sharing_(context.sharing),
        watcher_(first_rank_ && observer != nullptr ? *observer : silent_),
        flight_(config, context.world, options.run_folder, watcher_),
        trainer_(config, context, sources),
        drill_(options.drill, context.world.rank(), options.run_folder + "/flight",
               {.device = context.device, .live = [this] { return trainer_.Live(); }}),
        losses_("loss", config.train.loss_spike),
        norms_("gradient norm", config.train.norm_spike),
        dumped_(config.log.dump_steps),
        evaluated_(config.evaluate.steps),
        facts_{.total_steps = trainer_.schedule().TotalSteps({})} {
    trainer_.set_ledger(flight_.ledger());
    if (flight_.ledger() != nullptr && options.trace.first > 0) {
      recorder_ = std::make_unique<TraceRecorder>(options.trace);
      flight_.ledger()->set_listener(recorder_.get());
    }
    if (options.signals != nullptr && context.world.can_hurry()) {
      hurry_ = std::jthread([signals = options.signals, &world = context.world](const std::stop_token& stop) {
        HurryWhenAsked(*signals, world, stop);
      });
    }
    if (config.train.rerun) {
      trainer_.set_suspicion([this](const StepResult& result) {
        return (result.skipped && !trainer_.loss_scaler().dynamic()) || losses_.IsSpike(result.loss) ||
               norms_.IsSpike(result.gradient_norm);
      });
    }
    if (config.train.on_spike == "skip") {
      trainer_.set_veto([this](const StepResult& result) {
        return losses_.IsSpike(result.loss) || norms_.IsSpike(result.gradient_norm);
      });
    }
    if (flight_.ledger() != nullptr && context.device.is_host()) {
      flight_.ledger()->PromiseBeats();
    }
    // On every rank: a hook keeps work from being recorded, and ranks that meet must do alike.
    if (!options.drill.what.empty() && flight_.ledger() != nullptr) {
      flight_.ledger()->set_on_phase(
          [this](std::int64_t step, std::string_view phase) { drill_.AtPhase(step, phase); });
    }
    if (!options.run_folder.empty()) {
      checkpoints_ = std::make_unique<RunCheckpoints>(
          RunCheckpointOptions{.folder = options.run_folder + "/checkpoints",
                               .config = config,
                               .message = [this](const std::string& text) { watcher_.Note(text); },
                               .hook = HookOfSaves(),
                               .alive =
                                   [this] {
                                     if (flight_.ledger() != nullptr) {
                                       flight_.ledger()->Alive();
                                     }
                                   }},
          context.world, context.device, trainer_.table());
    }
  }

  // Runs and leaves in the ledger how it ended.
  LoopResult Run() {
    try {
      const LoopResult result = RunSteps();
      flight_.Finish(result.end == LoopEnd::kFinished ? LedgerEnd::kFinished : LedgerEnd::kStopped, "");
      return result;
    } catch (const std::exception& error) {
      flight_.Finish(LedgerEnd::kFailed, error.what());
      if (!trainer_.device().is_host()) {
        // Before the trainer's memory is freed, which waits for what its device has to do: the other ranks'
        // collectives.
        trainer_.world().Abort(error.what());
      }
      throw;
    }
  }

 private:
  LoopResult RunSteps() {
    Mark("load");
    Resume();
    LoopResult result{.step = trainer_.progress().step};
    while (!AtEnd() && result.end == LoopEnd::kFinished) {
      const std::int64_t coming = trainer_.progress().step + 1;
      Dump(coming, "before");
      facts_.result = trainer_.Step(static_cast<int>(Wanted()));
      facts_.phases = flight_.ledger() != nullptr ? flight_.ledger()->TakePhases() : PhaseTimes{};
      Dump(coming, "after");
      result.step = facts_.result.step;
      result.last_loss = facts_.result.passed_over ? result.last_loss : facts_.result.loss;
      Observe();
      if (RolledBack()) {
        continue;
      }
      const auto request = static_cast<StopRequest>(facts_.result.request);
      const bool due = config_.checkpoint.every > 0 && result.step % config_.checkpoint.every == 0;
      const bool last = request == StopRequest::kSaveAndStop || AtEnd();
      if (due || last || request != StopRequest::kNone) {
        Save(last);
      }
      if (request == StopRequest::kSaveAndStop) {
        result.end = LoopEnd::kStopped;
      }
    }
    if (checkpoints_ != nullptr) {
      Mark("save");
      checkpoints_->Finish();
    }
    Mark("end");
    WriteTrace();
    watcher_.Ended();
    result.consumed_samples = trainer_.progress().consumed_samples;
    result.whole = trainer_.schedule().Finished(trainer_.position());
    return result;
  }

  // Every rank's file is there when this returns.
  void WriteTrace() {
    if (recorder_ != nullptr) {
      WriteRankTrace(options_.run_folder, trainer_.world().rank(), recorder_->trace());
      trainer_.world().Barrier();
    }
  }

  bool AtEnd() const {
    const bool staged = options_.end_samples > 0 && trainer_.progress().consumed_samples >= options_.end_samples;
    return staged || trainer_.schedule().Finished(trainer_.position());
  }

  void Dump(std::int64_t step, const char* when) {
    if (!options_.run_folder.empty() && dumped_.Has(step)) {
      Mark("dump");
      DumpWeights(trainer_, options_.run_folder + "/dump", step, when);
    }
  }

  void Mark(const char* phase) {
    if (flight_.ledger() != nullptr) {
      flight_.ledger()->SetPhase(trainer_.progress().step, phase);
    }
  }

  SaveHook HookOfSaves() {
    if (!drill_.active()) {
      return {};
    }
    return [this](SavePoint point) { drill_.AtSave(saving_step_, point); };
  }

  // False: there is no checkpoint, and the run starts from the beginning.
  bool Resume() {
    bool resumed = false;
    if (checkpoints_ != nullptr) {
      const std::vector<OwnedState> state = trainer_.State();
      if (const std::optional<LoadedCheckpoint> found = checkpoints_->Load(state)) {
        trainer_.Restore({.step = found->progress.step,
                          .consumed_samples = found->progress.consumed_samples,
                          .updates = found->progress.updates,
                          .loss_scale = SavedLossScale(found->progress)});
        if (!found->progress.device_choices.empty()) {
          trainer_.device().ReadChoices(found->progress.device_choices);
        }
        for (const std::string& difference : found->differences) {
          watcher_.Note("changed since the checkpoint: " + difference);
        }
        const auto lowered = found->progress.notes.find(kRateFactorNote);
        rate_factor_ = lowered == found->progress.notes.end() ? 1.0 : std::stod(lowered->second);
        trainer_.set_rate_factor(rate_factor_);
        GoOnFrom(*found);
        resumed = true;
      }
    }
    if (!resumed && trainer_.progress().step == 0 && !config_.model_from.empty()) {
      LoadFirstWeights(config_.model_from, trainer_);
      watcher_.Note(fmt::format("goes on from the weights of '{}'", config_.model_from));
    }
    watcher_.Started(trainer_, trainer_.progress().step);
    return resumed;
  }

  // Batches, learning rate and end, from where the checkpoint's run stood.
  void GoOnFrom(const LoadedCheckpoint& found) {
    std::vector<std::string> notes;
    trainer_.set_schedule(RunSchedule(config_, found.progress.schedule, trainer_.position(), found.changed, notes));
    facts_.total_steps = trainer_.schedule().TotalSteps(trainer_.position());
    if (AtEnd()) {
      notes.push_back(
          fmt::format("nothing to do: {} steps are taken and {} samples consumed, and the recipe asks for {}",
                      trainer_.progress().step, trainer_.progress().consumed_samples, Length()));
    }
    for (const std::string& note : notes) {
      watcher_.Note(note);
    }
  }

  std::string Length() const {
    const TrainConfig& train = config_.train;
    return train.samples > 0  ? fmt::format("train.samples = {}", train.samples)
           : train.tokens > 0 ? fmt::format("train.tokens = {}", train.tokens)
                              : fmt::format("train.steps = {}", train.steps);
  }

  // What this rank asks all ranks to do after the coming step.
  StopRequest Wanted() {
    StopRequest request = first_rank_ ? RequestedByFile(options_.run_folder) : StopRequest::kNone;
    const auto step_ns = static_cast<std::int64_t>(facts_.result.seconds * 2e9);
    if (options_.leave_before_ns > 0 && WallNanoseconds() + step_ns >= options_.leave_before_ns) {
      request = StopRequest::kSaveAndStop;
    }
    if (options_.signals != nullptr) {
      request = std::max(request, options_.signals->Pending());
      if (request == StopRequest::kSave) {
        options_.signals->Clear();
      }
    }
    return request;
  }

  // A gradient beyond fp16, of a finite loss: the loss scale is lowered, and training goes on.
  bool OnlyOverflowed() const { return facts_.result.overflowed && std::isfinite(facts_.result.loss); }

  void Observe() {
    facts_.skipped_steps += facts_.result.skipped ? 1 : 0;
    facts_.nan_steps += facts_.result.skipped && !facts_.result.passed_over && !OnlyOverflowed() ? 1 : 0;
    if (first_rank_ && facts_.result.global_batch != priced_batch_) {
      priced_batch_ = facts_.result.global_batch;
      facts_.hardware_flops = HardwareFlops(config_, priced_batch_);
    }
    if (!facts_.result.passed_over) {
      watcher_.StepDone(facts_);
    }
    if (!memory_shown_) {
      WriteChoices();
      memory_shown_ = true;
      const std::vector<MemoryUse> by_rank = GatherMemory(trainer_);
      watcher_.MemoryMeasured(by_rank);
      CompareDeviceMemory(by_rank.front());
    }
    Mark("check");
    LookAtNumbers();
    if (config_.validation.every > 0 && facts_.result.step % config_.validation.every == 0) {
      Mark("validate");
      watcher_.Validated(facts_.result.step, trainer_.Validate());
    }
    EvaluateWhenDue();
  }

  void EvaluateWhenDue() {
    const std::int64_t step = facts_.result.step;
    const std::int64_t every = config_.evaluate.every;
    if (options_.tasks == nullptr || !((every > 0 && step % every == 0) || evaluated_.Has(step))) {
      return;
    }
    Mark("evaluate");
    for (const EvaluationTask& task : *options_.tasks) {
      watcher_.Evaluated(step, task.name, trainer_.Evaluate(task));
    }
  }

  // What the device holds against what was planned, on rank 0; ranks of one GPU are taken to hold alike.
  void CompareDeviceMemory(const MemoryUse& own) {
    const std::int64_t used = trainer_.device().used_bytes();
    if (used == 0 || !first_rank_) {
      return;
    }
    const auto gib = [](std::int64_t bytes) { return static_cast<double>(bytes) / kGibi; };
    const std::int64_t planned = own.total() * sharing_;
    const std::int64_t known = trainer_.UnplannedBytes() * sharing_;
    watcher_.Note(
        fmt::format("device memory: {:.2f} GiB in use; planned {:.2f}, workspaces and communicators {:.2f}, "
                    "{:.2f} more (contexts, kernels, other programs)",
                    gib(used), gib(planned), gib(known), gib(used - planned - known)));
  }

  // Numbers are equal on every rank, and so is what follows from them.
  void LookAtNumbers() {
    const StepResult& result = facts_.result;
    const std::string& choice = config_.train.on_nonfinite;
    Require(result.verdict.cause != Cause::kLasting, "{}", result.verdict.text);
    if (!result.verdict.text.empty()) {
      watcher_.Note(result.verdict.text);
    }
    if (result.passed_over) {
      watcher_.Note(fmt::format("step {}: passed over, as train.skip_steps says", result.step));
    } else if (OnlyOverflowed()) {
      watcher_.Note(
          fmt::format("step {}: a gradient overflowed fp16 at a loss scale of {:g}: no update; the scale is "
                      "{:g} from now on",
                      result.step, result.loss_scale, trainer_.loss_scaler().scale()));
    } else if (result.skipped) {
      const std::string where = trainer_.NameNonFinite();
      Require(choice != "stop", "step {}: not finite: {} (train.on_nonfinite = \"stop\")", result.step, where);
      watcher_.Note(fmt::format("step {}: not finite: {}", result.step, where));
      rolling_back_ = choice == "rollback";
      Require(!rolling_back_ || rollbacks_ < kMostRollbacks,
              "step {} is not finite after going back {} times, so that it is no passing fault: {}", result.step,
              rollbacks_, where);
    } else {
      bool spiked = false;
      for (const std::string& spike :
           {losses_.Check(result.step, result.loss), norms_.Check(result.step, result.gradient_norm)}) {
        if (!spike.empty()) {
          watcher_.Note(spike);
          spiked = true;
        }
      }
      if (spiked) {
        ActOnSpike();
      }
    }
    const std::int64_t every = config_.train.replica_check_every;
    if (every > 0 && result.step % every == 0) {
      trainer_.CompareReplicas();
    }
  }

  // As train.on_spike says; a step that "skip" refused was not updated.
  void ActOnSpike() {
    const std::int64_t step = facts_.result.step;
    const std::string& choice = config_.train.on_spike;
    if (choice == "skip") {
      watcher_.Note(fmt::format("step {}: no update (train.on_spike = \"skip\")", step));
    } else if (choice == "lower") {
      rate_factor_ /= 2;
      trainer_.set_rate_factor(rate_factor_);
      watcher_.Note(
          fmt::format("step {}: the learning rate is {:g} of the schedule's from now on "
                      "(train.on_spike = \"lower\")",
                      step, rate_factor_));
    } else if (choice == "rollback") {
      rolling_back_ = true;
      spike_step_ = step;
    }
  }

  // After a step that is not finite, under train.on_nonfinite = "rollback", or a spike under train.on_spike =
  // "rollback": the newest checkpoint again. Equal samples would give an equal spike: its step is passed over.
  bool RolledBack() {
    if (!rolling_back_) {
      rollbacks_ = facts_.result.step > failed_step_ ? 0 : rollbacks_;
      return false;
    }
    rolling_back_ = false;
    failed_step_ = facts_.result.step;
    ++rollbacks_;
    Require(
        checkpoints_ != nullptr && Resume(),
        "step {} is to be undone, and there is no checkpoint to go back to (train.on_nonfinite or train.on_spike is "
        "\"rollback\"); set checkpoint.every",
        failed_step_);
    if (spike_step_ > 0) {
      trainer_.PassOverStep(spike_step_);
      spike_step_ = 0;
    }
    watcher_.Note(fmt::format("went back to step {} ({} of {})", trainer_.progress().step, rollbacks_, kMostRollbacks));
    return true;
  }

  // For people; the checkpoint's copy is the one that is read again.
  void WriteChoices() {
    const std::string choices = trainer_.device().choices();
    if (first_rank_ && checkpoints_ != nullptr && !choices.empty()) {
      try {
        ReplaceFile(options_.run_folder + "/device_choices.txt", choices);
      } catch (const Error&) {
        // A copy for people, on a disk that may be full or gone: checkpoints hold the choices that a resume reads.
      }
    }
  }

  void Save(bool last) {
    if (checkpoints_ != nullptr) {
      WriteChoices();
      const Progress& progress = trainer_.progress();
      watcher_.Saving(progress.step);
      Mark("save");
      if (!options_.drill.what.empty()) {
        checkpoints_->Settle();  // a save still under way asks for its own step
        saving_step_ = progress.step;
      }
      SavedProgress saved{.step = progress.step,
                          .consumed_samples = progress.consumed_samples,
                          .updates = progress.updates,
                          .schedule = trainer_.schedule().StateAt(progress.consumed_samples),
                          .device_choices = trainer_.device().choices(),
                          .last = last};
      if (trainer_.loss_scaler().dynamic()) {
        saved.loss_scale = progress.loss_scale.scale;
        saved.notes[kLossScaleNote] = fmt::format("{} {}", progress.loss_scale.good_steps, progress.loss_scale.left);
      }
      if (rate_factor_ != 1) {
        saved.notes[kRateFactorNote] = fmt::format("{}", rate_factor_);
      }
      checkpoints_->Save(saved, trainer_.State());
    }
  }

  const RunConfig& config_;
  LoopOptions options_;
  bool first_rank_;
  int sharing_;
  TrainingObserver silent_;
  TrainingObserver& watcher_;
  std::unique_ptr<TraceRecorder> recorder_;  // before the ledger, which speaks to it
  FlightRecorder flight_;                    // before the trainer: its groups inherit the observer
  Trainer trainer_;
  DrillMaster drill_;
  Spikes losses_;
  Spikes norms_;
  StepList dumped_;
  StepList evaluated_;
  StepFacts facts_;
  std::int64_t priced_batch_ = 0;
  bool memory_shown_ = false;
  bool rolling_back_ = false;
  int rollbacks_ = 0;
  std::int64_t failed_step_ = 0;
  std::int64_t spike_step_ = 0;  // to be passed over after going back
  double rate_factor_ = 1;
  std::atomic<std::int64_t> saving_step_ = 0;
  std::unique_ptr<RunCheckpoints> checkpoints_;  // last: its thread speaks to the watcher
  std::jthread hurry_;
};

}  // namespace

LoopResult RunTraining(const RunConfig& config, RankContext& context, const Trainer::Sources& sources,
                       const LoopOptions& options, TrainingObserver* observer) {
  return Loop(config, context, sources, options, observer).Run();
}

}  // namespace trireme
