#include "operate/staged_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

#include "base/durable_file.h"
#include "base/error.h"
#include "checkpoint/read/checkpoint_folder.h"
#include "checkpoint/tools/tokenizer_places.h"
#include "comm/launch_environment.h"
#include "data/tokenizer/tokenizer_folder.h"
#include "operate/run_source.h"

namespace trireme {
namespace {

// Samples consumed by the newest checkpoint of a run; 0 where there is none.
std::int64_t ConsumedSamples(const std::string& folder) {
  const std::optional<FoundManifest> found = FindNewestManifest(folder + "/checkpoints");
  return found ? found->manifest.state.consumed_samples : 0;
}

}  // namespace

StagedRun::StagedRun(const ReadRecipe& read, int ranks, bool saves)
    : saves_(saves), recipe_(read({})), stages_(ParseStages(recipe_.config.train.stages)) {
  for (const RunStage& stage : stages_) {
    configs_.push_back(stage.settings.empty() ? recipe_.config : read(stage.settings).config);
    // --ranks is of the recipe itself; a stage before may have others.
    Validate(configs_.back(), configs_.size() == stages_.size() ? ranks : 0);
  }
  RequireStages(stages_, configs_);
  Require(stages_.size() == 1 || saves_,
          "train.stages goes from one stage to the next through a checkpoint, which --no-checkpoint leaves out");
}

void StagedRun::ChooseMemory(bool fit, const std::string& folder, std::int64_t host_bytes, bool by_threads) {
  memory_ = std::make_unique<MemoryChoices>(recipe_, fit, folder);
  if (IsHostDevice(config().train.device)) {
    for (RunConfig& config : configs_) {
      config = memory_->Choose(config, host_bytes / (by_threads ? config.layout.ranks() : 1));
    }
  }
}

void StagedRun::OpenSources(const std::function<std::vector<EvaluationTask>(const RunConfig&)>& open_tasks) {
  // Every stage has the same data, and what one process has read others need not.
  const bool first_rank = !LaunchedByMpi() || RankFromEnvironment().value_or(0) == 0;
  for (const RunConfig& config : configs_) {
    train_.push_back(OpenRunSource(config, "train", first_rank && train_.empty()));
    validation_.push_back(config.validation.every > 0 ? OpenRunSource(config, "validation") : nullptr);
    tasks_.push_back(open_tasks ? open_tasks(config) : std::vector<EvaluationTask>{});
  }
}

std::size_t StagedRun::NextStage(const std::string& folder) const {
  return StageAt(stages_, stages_.size() > 1 ? ConsumedSamples(folder) : 0);
}

StagedRun::Progress StagedRun::Run(RankContext& context, const Progress& from, const std::string& folder,
                                   const LoopOptions& options, TrainingObserver& observer) const {
  Progress progress = from;
  do {
    progress.result = TrainStage(progress.next, context, folder, options, observer);
    if (progress.result.end != LoopEnd::kOtherStage) {
      progress.trained = true;
      ++progress.next;
      continue;
    }
    Require(
        !progress.trained,
        "stage {} of {} begins at sample {}, and the newest good checkpoint in '{}' has consumed {}: what the stage "
        "before saved is damaged or gone; start the same command again, which goes on from that checkpoint",
        progress.next + 1, stages_.size(), stages_[progress.next - 1].until, folder, progress.result.consumed_samples);
    progress.next = StageAt(stages_, progress.result.consumed_samples);
  } while (GoesOn(progress) && configs_[progress.next].layout.ranks() == context.world.size());
  return progress;
}

bool StagedRun::GoesOn(const Progress& progress) const {
  const bool ended = progress.result.end == LoopEnd::kFinished && !progress.result.whole;
  return progress.next < stages_.size() && (ended || progress.result.end == LoopEnd::kOtherStage);
}

LoopResult StagedRun::TrainStage(std::size_t stage, RankContext& context, const std::string& folder,
                                 const LoopOptions& options, TrainingObserver& observer) const {
  const RunConfig& own = configs_[stage];
  RunConfig used = IsHostDevice(own.train.device) ? own : memory_->ChooseForDevices(own, context);
  // The thread count that was worked out belongs to the bits of the run: run.toml and checkpoints name it.
  used.train.threads = context.device.is_host() ? context.threads : own.train.threads;
  if (context.world.rank() == 0) {
    ReplaceFile(folder + "/run.toml", ToToml(used));
    ReplaceFile(folder + "/" + kRunSourceFile, AbsoluteSource(own.data.source) + "\n");
    if (const std::string tokenizer = FindTokenizerOf(own); !tokenizer.empty()) {
      CopyTokenizer(tokenizer, folder);
    }
  }
  LoopOptions with_stage = options;
  with_stage.run_folder = saves_ ? folder : "";
  with_stage.begin_samples = stage > 0 ? stages_[stage - 1].until : 0;
  with_stage.end_samples = stages_[stage].until;
  if (stages_.size() > 1) {
    with_stage.begins = [&] { observer.Note(StageText(stage)); };
  }
  with_stage.tasks = &tasks_[stage];
  return RunTraining(used, context, {.train = train_[stage].get(), .validation = validation_[stage].get()}, with_stage,
                     &observer);
}

std::string StagedRun::StageText(std::size_t stage) const {
  const RunStage& own = stages_[stage];
  return fmt::format(
      "stage {} of {}{}: {}", stage + 1, stages_.size(),
      own.until > 0 ? fmt::format(", until sample {}", own.until) : "",
      own.settings.empty() ? "the recipe's own settings" : fmt::format("{}", fmt::join(own.settings, ", ")));
}

}  // namespace trireme
