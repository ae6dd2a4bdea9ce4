// A whole run on the ranks of this process, stage by stage as train.stages says (run/stages.h); a recipe without that
// key is a run of one stage. Made once per process, before anything is written; then every rank calls Run. What is
// decided before the ranks start (configurations, sources) is only read by them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/rank_runner.h"
#include "data/samples/sample_source.h"
#include "operate/run_start.h"
#include "operate/training_loop.h"
#include "run/run_config.h"
#include "run/stages.h"

namespace trireme {

class StagedRun {
 public:
  // Reads the recipe with these "key=value" overrides after its own.
  using ReadRecipe = std::function<Recipe(const std::vector<std::string>& overrides)>;
  // Loads every stage and validates each and all together; `ranks` as Validate takes it. `saves` false: the run neither
  // reads nor writes checkpoints, which only a run of one stage can do without.
  StagedRun(const ReadRecipe& read, int ranks, bool saves);

  // The recipe itself, whose settings are the last stage's.
  const Recipe& recipe() const { return recipe_; }
  const RunConfig& config() const { return configs_.back(); }
  std::size_t stages() const { return stages_.size(); }
  const RunConfig& config(std::size_t stage) const { return configs_[stage]; }

  // What layout.recompute = "auto" and --fit choose. On hosts it is chosen here, for the bytes of this one, which ranks
  // that are threads share; on devices by Run, which knows them. `folder` is that of the run.
  void ChooseMemory(bool fit, const std::string& folder, std::int64_t host_bytes, bool by_threads);
  // Opens samples, and with `open_tasks`, if given, the tasks that a stage is scored on. An Error when a file of a
  // stage is missing or unfit.
  void OpenSources(const std::function<std::vector<EvaluationTask>(const RunConfig&)>& open_tasks = {});

  // The stage that a run in this folder begins or goes on with, by the newest checkpoint's manifest: Run finds out
  // whether its data are good.
  std::size_t NextStage(const std::string& folder) const;
  struct Progress {
    LoopResult result;     // of the last stage that ran
    std::size_t next = 0;  // the stage to run
    bool trained = false;  // a stage has run in this process
  };
  // Runs stage `from.next` and those after it that have as many ranks as the world. Should the checkpoint that is
  // loaded not have reached that stage, the one that it belongs to is run instead; once a stage has run that is an
  // Error. Rank 0 writes each stage's run.toml and the tokenizer into `folder` and tells the observer which stage
  // begins. `options`' run_folder, begin_samples, end_samples, begins and tasks are set by this. Requires ChooseMemory
  // and OpenSources; the folder exists. Collective over the world. The result is equal on every rank.
  Progress Run(RankContext& context, const Progress& from, const std::string& folder, const LoopOptions& options,
               TrainingObserver& observer) const;
  // Whether a stage is left to run, on another number of ranks.
  bool GoesOn(const Progress& progress) const;

 private:
  LoopResult TrainStage(std::size_t stage, RankContext& context, const std::string& folder, const LoopOptions& options,
                        TrainingObserver& observer) const;
  // "stage 1 of 3, until sample 16: layout.tensor=2".
  std::string StageText(std::size_t stage) const;

  bool saves_;
  Recipe recipe_;
  std::vector<RunStage> stages_;
  std::vector<RunConfig> configs_;  // one per stage
  std::unique_ptr<MemoryChoices> memory_;
  std::vector<std::unique_ptr<SampleSource>> train_;  // one per stage
  std::vector<std::unique_ptr<SampleSource>> validation_;
  std::vector<std::vector<EvaluationTask>> tasks_;
};

}  // namespace trireme
