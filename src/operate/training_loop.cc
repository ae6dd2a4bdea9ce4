#include "operate/training_loop.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/durable_file.h"
#include "base/error.h"
#include "operate/disk_forecast.h"
#include "operate/flight_recorder.h"
#include "operate/number_watch.h"
#include "operate/run_checkpoints.h"
#include "operate/run_facts.h"
#include "operate/saved_progress.h"
#include "operate/weight_dump.h"
#include "run/step_list.h"
#include "train/first_weights.h"
#include "train/histograms.h"

namespace trireme {
namespace {

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

// A rank whose device is stuck reads no signals. Once the job was asked to end, collectives that stand still are
// aborted; those of a step that goes on are not.
void ShortenTimeoutsWhenAsked(const StopSignals& signals, Communicator& world, const std::stop_token& stop) {
  constexpr auto kInterval = std::chrono::milliseconds(100);
  while (!stop.stop_requested()) {
    if (signals.Pending() == StopRequest::kSaveAndStop) {
      return world.ShortenTimeouts();
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
        stop_(options.stop_watch, context.world.rank(), flight_.ledger()),
        trainer_(config, context, sources),
        drill_(options.drill, context.world.rank(), options.run_folder + "/flight",
               {.device = context.device, .live = [this] { return trainer_.parts().Live(); }}),
        numbers_(config, trainer_, watcher_),
        dumped_(config.log.dump_steps),
        evaluated_(config.evaluate.steps),
        facts_{.total_steps = trainer_.schedule().TotalSteps({})} {
    trainer_.set_ledger(flight_.ledger());
    if (flight_.ledger() != nullptr && options.trace.first > 0) {
      recorder_ = std::make_unique<TraceRecorder>(options.trace);
      flight_.ledger()->set_listener(recorder_.get());
    }
    if (options.signals != nullptr && context.world.can_shorten_timeouts()) {
      timeout_watch_ = std::jthread([signals = options.signals, &world = context.world](const std::stop_token& stop) {
        ShortenTimeoutsWhenAsked(*signals, world, stop);
      });
    }
    if (config.log.histogram_every > 0) {
      trainer_.set_before_update([this](const StepResult& result, double factor) {
        if (TakesHistograms(result.step)) {
          histograms_.gradients = ByName(HistogramsOfGradients(trainer_.parts(), factor));
        }
      });
    }
    if (flight_.ledger() != nullptr && context.device.is_paced()) {
      // One origin for all ranks: their tracks and messages are compared.
      const std::int64_t began = std::stoll(*context.world.ShareBytes(std::to_string(WallNanoseconds()), 0));
      flight_.ledger()->set_clock(
          [began, &device = context.device] { return began + static_cast<std::int64_t>(device.Now() * 1e9); });
    }
    if (flight_.ledger() != nullptr && (context.device.is_host() || context.device.is_paced())) {
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
                               .drop_state = options.drop_state,
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
      const bool unsaved = result.end == LoopEnd::kUnsaved;
      flight_.Finish(unsaved                           ? LedgerEnd::kFailed
                     : result.end == LoopEnd::kStopped ? LedgerEnd::kStopped
                                                       : LedgerEnd::kFinished,
                     unsaved ? "the last checkpoint could not be saved" : "");
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
    const Found found = Resume();
    if (found == Found::kOfEarlierStage) {
      return {.end = LoopEnd::kOtherStage,
              .step = trainer_.progress().step,
              .consumed_samples = trainer_.progress().consumed_samples};
    }
    if (const std::string substitutions = trainer_.device().substitutions(); !substitutions.empty()) {
      watcher_.Note(substitutions);
    }
    ForecastDisk();
    stop_.Enter(StopWatch::Stage::kTraining);
    LoopResult result{.step = trainer_.progress().step};
    while (!AtEnd() && result.end == LoopEnd::kFinished) {
      const std::int64_t coming = trainer_.progress().step + 1;
      Dump(coming, "before");
      facts_.result = trainer_.Step(static_cast<int>(Wanted()));
      if (config_.model.experts.any() && !facts_.result.passed_over && config_.train.device != "paced") {
        facts_.experts = GatherExpertLoad(trainer_.parts());
      }
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
      if (request == StopRequest::kSaveAndStop) {
        result.end = LoopEnd::kStopped;
      }
      if (last && !SaveLast()) {
        result.end = LoopEnd::kUnsaved;
      } else if (!last && (due || request != StopRequest::kNone)) {
        Save();
      }
    }
    if (checkpoints_ != nullptr) {
      Mark("save");
      checkpoints_->Finish();
    }
    stop_.Enter(StopWatch::Stage::kEnding);
    Mark("end");
    WriteTrace();
    watcher_.Ended();
    result.consumed_samples = trainer_.progress().consumed_samples;
    result.whole = trainer_.schedule().Finished(trainer_.progress());
    return result;
  }

  void ForecastDisk() {
    const std::int64_t step = trainer_.progress().step;
    const std::int64_t saves = SavesToCome(config_.checkpoint, step, facts_.total_steps);
    if (checkpoints_ == nullptr || saves == 0) {
      return;
    }
    const std::string folder = options_.run_folder + "/checkpoints";
    const std::int64_t bytes = checkpoints_->BytesOfCheckpoint(trainer_.JoinState());
    if (bytes == 0) {
      return;  // a paced run's have no values
    }
    watcher_.Note(Describe({.bytes = bytes,
                            .existing = static_cast<std::int64_t>(ListCheckpoints(folder).size()),
                            .saves = saves,
                            .keep = config_.checkpoint.keep,
                            .joined = config_.checkpoint.ranks_per_file > 1 && config_.layout.ranks() > 1,
                            .free = FreeBytes(folder)},
                           folder));
  }

  // The files of all ranks that are traced are there when this returns.
  void WriteTrace() {
    if (recorder_ == nullptr) {
      return;
    }
    if (IsTraced()) {
      WriteRankTrace(options_.run_folder, trainer_.world().rank(), recorder_->trace());
    }
    trainer_.world().Barrier();
  }

  bool IsTraced() {
    Communicator& world = trainer_.world();
    if (options_.trace.every_rank || world.size() <= kTracedRanks) {
      return true;
    }
    const std::vector<std::string> times = world.CollectBytes(std::to_string(TimeInCalls(recorder_->trace())), 0);
    const auto least = std::min_element(times.begin(), times.end(), [](const std::string& a, const std::string& b) {
      return std::stoll(a) < std::stoll(b);
    });
    const std::string slowest = *world.ShareBytes(std::to_string(least - times.begin()), 0);
    const std::vector<int> traced = TracedRanks(config_.layout, std::stoi(slowest));
    return std::binary_search(traced.begin(), traced.end(), world.rank());
  }

  bool AtEnd() const {
    const bool staged = options_.end_samples > 0 && trainer_.progress().consumed_samples >= options_.end_samples;
    return staged || trainer_.schedule().Finished(trainer_.progress());
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

  enum class Found { kNothing, kCheckpoint, kOfEarlierStage };

  // Goes on from the newest good checkpoint, if there is one.
  Found Resume() {
    bool resumed = false;
    if (checkpoints_ != nullptr) {
      const std::vector<OwnedState> state = trainer_.JoinState();
      if (const std::optional<LoadedCheckpoint> found = checkpoints_->Load(state)) {
        trainer_.Restore(SavedTrainerProgress(found->progress));
        if (found->progress.consumed_samples < options_.begin_samples) {
          return Found::kOfEarlierStage;
        }
        if (!found->progress.device_choices.empty()) {
          trainer_.device().ReadChoices(found->progress.device_choices);
        }
        if (!found->dropped.empty()) {
          watcher_.Note("dropped, as --drop-state says: " + ToText(found->dropped));
        }
        for (const std::string& difference : found->differences) {
          watcher_.Note("changed since the checkpoint: " + difference);
        }
        const bool has_numbers = HasNumbers(found->progress);
        if (!has_numbers && !numbers_missing_told_ && found->progress.step > 0) {
          numbers_missing_told_ = true;
          watcher_.Note(
              "the checkpoint has no running means of loss and gradient norm, as an earlier version saved "
              "it: the next steps make them anew before a spike is one");
        }
        numbers_.Restore(SavedNumbers(found->progress, numbers_.memory()));
        ResumeFrom(*found);
        resumed = true;
      }
    }
    if (!resumed && options_.begin_samples > 0) {
      return Found::kOfEarlierStage;
    }
    if (first_rank_ && options_.begins) {
      std::exchange(options_.begins, nullptr)();
    }
    if (!resumed && trainer_.progress().step == 0 && !config_.model_from.empty()) {
      LoadFirstWeights(config_.model_from, trainer_);
      watcher_.Note(fmt::format("goes on from the weights of '{}'", config_.model_from));
    }
    watcher_.Started(trainer_, trainer_.progress().step);
    return resumed ? Found::kCheckpoint : Found::kNothing;
  }

  // Batches, learning rate and end, from where the checkpoint's run stood.
  void ResumeFrom(const LoadedCheckpoint& found) {
    std::vector<std::string> notes;
    trainer_.set_schedule(RunSchedule(config_, found.progress.schedule, trainer_.progress(), found.changed, notes));
    facts_.total_steps = trainer_.schedule().TotalSteps(trainer_.progress());
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

  void Observe() {
    facts_.skipped_steps += facts_.result.skipped ? 1 : 0;
    facts_.nan_steps += facts_.result.skipped && !facts_.result.passed_over && !OnlyOverflowed(facts_.result) ? 1 : 0;
    if (first_rank_ && facts_.result.global_batch != priced_batch_) {
      priced_batch_ = facts_.result.global_batch;
      facts_.hardware_flops = HardwareFlops(config_, priced_batch_);
    }
    if (!facts_.result.passed_over) {
      watcher_.StepDone(facts_);
    }
    if (!memory_shown_) {
      TellChoices();
      memory_shown_ = true;
      if (const std::vector<MemoryUse> by_rank = CollectMemory(trainer_); !by_rank.empty()) {
        watcher_.MemoryMeasured(by_rank);
        if (const std::string compared = CompareDeviceMemory(trainer_, by_rank.front(), sharing_); !compared.empty()) {
          watcher_.Note(compared);
        }
      }
    }
    Mark("check");
    numbers_.Look(facts_.result);
    TakeHistograms();  // reads masters, which may lie where gradients are: after a look at these
    if (config_.validation.every > 0 && facts_.result.step % config_.validation.every == 0) {
      Mark("validate");
      ValidateNow();
    }
    EvaluateWhenDue();
  }

  void ValidateNow() {
    const std::int64_t step = facts_.result.step;
    if (const std::optional<double> loss = trainer_.Validate()) {
      watcher_.Validated(step, *loss);
    } else {
      watcher_.Note(
          fmt::format("step {}: no validation loss, as no token of the validation samples is a target", step));
    }
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

  bool TakesHistograms(std::int64_t step) const {
    return config_.log.histogram_every > 0 && step % config_.log.histogram_every == 0;
  }

  std::map<std::string, Histogram> ByName(std::vector<Histogram> by_row) const {
    std::map<std::string, Histogram> named;
    for (std::size_t row = 0; row < by_row.size(); ++row) {
      if (by_row[row].count == 0 && by_row[row].others == 0) {
        continue;  // frozen: no gradients
      }
      named[trainer_.table().rows()[row].name] = std::move(by_row[row]);
    }
    return named;
  }

  void TakeHistograms() {
    if (TakesHistograms(facts_.result.step) && !facts_.result.passed_over) {
      Mark("histogram");
      histograms_.step = facts_.result.step;
      histograms_.weights = ByName(HistogramsOfWeights(trainer_.parts()));
      watcher_.HistogramsTaken(histograms_);
      histograms_ = {};
    }
  }

  // After a step that was not finite or spiked: the newest checkpoint again, where the recipe asks for it.
  bool RolledBack() {
    const std::int64_t failed = facts_.result.step;
    if (!numbers_.MustGoBack(failed)) {
      return false;
    }
    Require(
        checkpoints_ != nullptr && Resume() == Found::kCheckpoint,
        "step {} is to be undone, and there is no checkpoint to go back to (train.on_nonfinite or train.on_spike is "
        "\"rollback\"); set checkpoint.every",
        failed);
    numbers_.WentBack();
    return true;
  }

  void TellChoices() {
    if (const std::string choices = trainer_.device().choices(); !choices.empty()) {
      watcher_.DeviceChose(choices);
    }
  }

  // What there is to save now.
  SavedProgress BeginSave() {
    TellChoices();
    const Progress& progress = trainer_.progress();
    watcher_.Saving(progress.step);
    Mark("save");
    if (!options_.drill.what.empty()) {
      checkpoints_->Settle();  // a save still under way asks for its own step
      saving_step_ = progress.step;
    }
    return ProgressToSave(trainer_, numbers_.memory());
  }

  void Save() {
    if (checkpoints_ != nullptr) {
      const SavedProgress saved = BeginSave();
      checkpoints_->Save(saved, trainer_.JoinState());
    }
  }

  // Whether the end of this run or stage is saved, or need not be.
  bool SaveLast() {
    if (checkpoints_ == nullptr) {
      return true;
    }
    SavedProgress saved = BeginSave();
    saved.last = true;
    const int asked = options_.signals != nullptr ? options_.signals->stops() : 0;
    return checkpoints_->SaveLast(
        saved, trainer_.JoinState(),
        {.seconds = config_.checkpoint.final_save_wait, .until_ns = options_.job_ends_ns, .given_up = [this, asked] {
           return (options_.signals != nullptr && options_.signals->stops() > asked) ||
                  (first_rank_ && RequestedByFile(options_.run_folder) == StopRequest::kSaveAndStop);
         }});
  }

  const RunConfig& config_;
  LoopOptions options_;
  bool first_rank_;
  int sharing_;
  TrainingObserver silent_;
  TrainingObserver& watcher_;
  std::unique_ptr<TraceRecorder> recorder_;  // before the ledger, which speaks to it
  FlightRecorder flight_;                    // before the trainer: its groups inherit the observer
  StopWatch::Rank stop_;
  Trainer trainer_;
  DrillMaster drill_;
  NumberWatch numbers_;
  StepList dumped_;
  StepList evaluated_;
  StepFacts facts_;
  std::int64_t priced_batch_ = 0;
  TrainingObserver::StepHistograms histograms_;
  bool memory_shown_ = false;
  bool numbers_missing_told_ = false;
  std::atomic<std::int64_t> saving_step_ = 0;
  std::unique_ptr<RunCheckpoints> checkpoints_;  // last: its thread speaks to the watcher
  std::jthread timeout_watch_;
};

}  // namespace

LoopResult RunTraining(const RunConfig& config, RankContext& context, const Trainer::Sources& sources,
                       const LoopOptions& options, TrainingObserver* observer) {
  return Loop(config, context, sources, options, observer).Run();
}

}  // namespace trireme
