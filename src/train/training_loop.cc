#include "train/training_loop.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "train/run_checkpoints.h"

namespace trireme {
namespace {

// What every rank holds, on every rank.
std::vector<MemoryUse> GatherMemory(Trainer& trainer) {
  Communicator& world = trainer.world();
  Device& device = trainer.device();
  const MemoryUse mine = trainer.Counted().memory;
  const std::int64_t bytes = sizeof(mine.bytes);
  auto* const memory = static_cast<char*>(device.Allocate((world.size() + 1) * bytes));
  const Tensor all{memory, DType::kInt64, {world.size() * kMemoryKinds}};
  const Tensor own{memory + world.size() * bytes, DType::kInt64, {kMemoryKinds}};
  device.CopyFromHost(own.data, mine.bytes.data(), bytes);
  world.AllGather(own, all);
  std::vector<MemoryUse> by_rank(static_cast<std::size_t>(world.size()));
  device.CopyToHost(by_rank.data(), all.data, all.bytes());
  device.Free(memory);
  return by_rank;
}

// FLOPs of one step over all ranks; every rank of a pipeline stage does the same.
double HardwareFlops(const RunConfig& config, std::int64_t global_batch) {
  double flops = 0;
  for (int pipeline = 0; pipeline < config.layout.pipeline; ++pipeline) {
    const StageOfRun stage(config, pipeline, global_batch);
    flops += static_cast<double>(CostOfStep(stage.description(), 0).flops.total()) * config.layout.tensor *
             config.layout.data;
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
                     .document_masks = config.data.document_masks});
}

namespace {

// The state of one run of the loop; RunTraining is its one user.
class Loop {
 public:
  Loop(const RunConfig& config, RankContext& context, const Trainer::Sources& sources, const LoopOptions& options,
       TrainingObserver* observer)
      : config_(config),
        options_(options),
        first_rank_(context.world.rank() == 0),
        watcher_(first_rank_ && observer != nullptr ? *observer : silent_),
        trainer_(config, context, sources),
        facts_{.total_steps = TotalSteps(config)} {
    if (!options.run_folder.empty()) {
      checkpoints_ = std::make_unique<RunCheckpoints>(
          RunCheckpointOptions{.folder = options.run_folder + "/checkpoints",
                               .config = config,
                               .message = [this](const std::string& text) { watcher_.Note(text); },
                               .hook = {}},
          context.world, context.device, trainer_.table());
    }
  }

  LoopResult Run() {
    Resume();
    LoopResult result{.step = trainer_.progress().step};
    while (trainer_.progress().step < facts_.total_steps && result.end == LoopEnd::kFinished) {
      facts_.result = trainer_.Step(static_cast<int>(Wanted()));
      result.step = facts_.result.step;
      result.last_loss = facts_.result.loss;
      Observe();
      const auto request = static_cast<StopRequest>(facts_.result.request);
      const bool due = config_.checkpoint.every > 0 && result.step % config_.checkpoint.every == 0;
      if (due || request != StopRequest::kNone || result.step == facts_.total_steps) {
        Save();
      }
      if (request == StopRequest::kSaveAndStop) {
        result.end = LoopEnd::kStopped;
      }
    }
    if (checkpoints_ != nullptr) {
      checkpoints_->Wait();
    }
    return result;
  }

 private:
  void Resume() {
    if (checkpoints_ != nullptr) {
      const std::vector<OwnedState> state = trainer_.State();
      if (const std::optional<LoadedCheckpoint> found = checkpoints_->Load(state)) {
        trainer_.Restore({.step = found->progress.step,
                          .consumed_samples = found->progress.consumed_samples,
                          .updates = found->progress.updates});
        for (const std::string& difference : found->differences) {
          watcher_.Note("changed since the checkpoint: " + difference);
        }
      }
    }
    watcher_.Started(trainer_, trainer_.progress().step);
  }

  // What this rank asks all ranks to do after the coming step.
  StopRequest Wanted() {
    StopRequest request = first_rank_ ? RequestedByFile(options_.run_folder) : StopRequest::kNone;
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
    if (first_rank_ && facts_.result.global_batch != priced_batch_) {
      priced_batch_ = facts_.result.global_batch;
      facts_.hardware_flops = HardwareFlops(config_, priced_batch_);
    }
    watcher_.StepDone(facts_);
    if (!memory_shown_) {
      memory_shown_ = true;
      watcher_.MemoryMeasured(GatherMemory(trainer_));
    }
    Require(!facts_.result.skipped || config_.train.on_nonfinite != "stop",
            "step {}: the loss or a gradient is not finite (train.on_nonfinite = \"stop\")", facts_.result.step);
    if (config_.validation.every > 0 && facts_.result.step % config_.validation.every == 0) {
      watcher_.Validated(facts_.result.step, trainer_.Validate());
    }
  }

  void Save() {
    if (checkpoints_ != nullptr) {
      const Progress& progress = trainer_.progress();
      checkpoints_->Save(
          {.step = progress.step, .consumed_samples = progress.consumed_samples, .updates = progress.updates},
          trainer_.State());
    }
  }

  const RunConfig& config_;
  LoopOptions options_;
  bool first_rank_;
  TrainingObserver silent_;
  TrainingObserver& watcher_;
  Trainer trainer_;
  StepFacts facts_;
  std::int64_t priced_batch_ = 0;
  bool memory_shown_ = false;
  std::unique_ptr<RunCheckpoints> checkpoints_;  // last: its thread speaks to the watcher
};

}  // namespace

LoopResult RunTraining(const RunConfig& config, RankContext& context, const Trainer::Sources& sources,
                       const LoopOptions& options, TrainingObserver* observer) {
  return Loop(config, context, sources, options, observer).Run();
}

}  // namespace trireme
