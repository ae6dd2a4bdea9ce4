#include "operate/staged_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <mutex>

#include "message_of.h"
#include "scratch_directory.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;

StagedRun::ReadRecipe Reader(const std::string& stages, const std::vector<std::string>& overrides = {}) {
  return [stages, overrides](const std::vector<std::string>& more) {
    std::vector<std::string> keys = {
        "model.layers=2",       "model.hidden=8", "model.heads=2",  "model.vocabulary=16", "model.sequence=4",
        "layout.micro_batch=1", "layout.data=2",  "batch.global=4", "train.loss_spike=0",  "train.samples=16"};
    if (!stages.empty()) {
      keys.push_back("train.stages=" + stages);
    }
    keys.insert(keys.end(), overrides.begin(), overrides.end());
    keys.insert(keys.end(), more.begin(), more.end());
    return ParseRecipe("", "test.toml", keys);
  };
}

class StageObserver : public TrainingObserver {
 public:
  void StepDone(const StepFacts& facts) override { losses.push_back(facts.result.loss); }
  void Note(const std::string& message) override {
    const std::scoped_lock lock(mutex_);
    if (message.starts_with("stage ")) {
      stages.push_back(message);
    }
  }

  std::vector<double> losses;
  std::vector<std::string> stages;

 private:
  std::mutex mutex_;
};

LoopResult Train(const std::string& stages, const std::string& folder, StageObserver& observer,
                 const std::vector<std::string>& overrides = {}) {
  StagedRun run(Reader(stages, overrides), 2, true);
  run.ChooseMemory(false, folder, 0, true);
  run.OpenSources();
  std::filesystem::create_directories(folder);
  StagedRun::Progress progress{.next = run.NextStage(folder)};
  do {
    RunThreadRanks(run.config(progress.next).layout.ranks(), {.kind = "cpu"}, [&](RankContext& context) {
      const StagedRun::Progress own = run.Run(context, progress, folder, {}, observer);
      context.world.Barrier();
      if (context.world.rank() == 0) {
        progress = own;
      }
    });
  } while (run.GoesOn(progress));
  return progress.result;
}

TEST(StagedRun, HasOneConfigurationPerStageAndTheRecipesLast) {
  const StagedRun one(Reader(""), 2, false);
  EXPECT_EQ(one.stages(), 1U);
  const StagedRun run(Reader("4: batch.global=2; 8: layout.tensor=2, layout.data=1"), 2, true);
  ASSERT_EQ(run.stages(), 3U);
  EXPECT_EQ(run.config(0).batch.global, 2);
  EXPECT_EQ(run.config(0).layout.data, 2);
  EXPECT_EQ(run.config(1).batch.global, 4);
  EXPECT_EQ(run.config(1).layout.tensor, 2);
  EXPECT_EQ(run.config().layout.data, 2);
  EXPECT_EQ(&run.config(), &run.config(2));
}

TEST(StagedRun, RefusesStagesThatCannotBeBeforeAnythingIsOpened) {
  const auto message = [](const std::string& stages, int ranks, bool saves) {
    return test::MessageOf([&] { const StagedRun run(Reader(stages), ranks, saves); });
  };
  EXPECT_THAT(message("4: batch.global=2", 2, false), HasSubstr("through a checkpoint, which --no-checkpoint"));
  EXPECT_THAT(message("4: layout.micro_batch=3", 2, true), HasSubstr("layout.micro_batch"));
  EXPECT_THAT(message("", 3, true), HasSubstr("the run has 3"));
}

TEST(StagedRun, GoesThroughItsStagesAsARunOfOneDoes) {
  const ScratchDirectory scratch;
  StageObserver plain;
  Train("", scratch / "plain", plain);
  EXPECT_THAT(plain.stages, IsEmpty());
  ASSERT_EQ(plain.losses.size(), 4U);
  StageObserver staged;
  const LoopResult end = Train("8: layout.tensor=2, layout.data=1", scratch / "staged", staged);
  EXPECT_THAT(staged.stages, ElementsAre("stage 1 of 2, until sample 8: layout.tensor=2, layout.data=1",
                                         "stage 2 of 2: the recipe's own settings"));
  ASSERT_EQ(staged.losses.size(), 4U);
  for (std::size_t step = 0; step < 4; ++step) {
    EXPECT_NEAR(staged.losses[step], plain.losses[step], 1e-5) << step;
  }
  EXPECT_TRUE(end.whole);
  EXPECT_EQ(end.consumed_samples, 16);
  EXPECT_EQ(LoadRecipe(scratch / "staged/run.toml", {}).config.layout.data, 2);
}

TEST(StagedRun, AStageMayHaveOtherRanks) {
  const ScratchDirectory scratch;
  StageObserver plain;
  Train("", scratch / "plain", plain);
  StageObserver staged;
  const LoopResult end = Train("8: layout.data=1", scratch / "staged", staged);
  EXPECT_TRUE(end.whole);
  ASSERT_EQ(staged.losses.size(), 4U);
  for (std::size_t step = 0; step < 4; ++step) {
    EXPECT_NEAR(staged.losses[step], plain.losses[step], 1e-5) << step;
  }
}

TEST(StagedRun, SkipsStagesThatAnEarlierProcessFinished) {
  const ScratchDirectory scratch;
  StageObserver first;
  EXPECT_TRUE(Train("4: batch.global=2", scratch / "run", first).whole);
  StageObserver again;
  Train("4: batch.global=2", scratch / "run", again);
  EXPECT_THAT(again.stages, ElementsAre("stage 2 of 2: the recipe's own settings"));
  EXPECT_THAT(again.losses, IsEmpty());
}

TEST(StagedRun, NoStageStartsWithoutTheCheckpointOfTheOneBefore) {
  const ScratchDirectory scratch;
  std::filesystem::create_directories(scratch / "run");
  std::ofstream(scratch / "run/checkpoints") << "a file in the way";
  StageObserver observer;
  const LoopResult end = Train("8: batch.global=2", scratch / "run", observer, {"checkpoint.final_save_wait=0"});
  EXPECT_EQ(end.end, LoopEnd::kUnsaved);
  EXPECT_EQ(observer.stages.size(), 1U);
  EXPECT_EQ(observer.losses.size(), 4U);
}

// Stage 1 has a batch of 2. What it saved at its end is damaged in a tensor, which its manifest does not show: the run
// goes on from the step before, with the batch of stage 1.
TEST(StagedRun, TheStageIsThatOfTheCheckpointThatIsLoaded) {
  const std::vector<std::string> saves = {"checkpoint.every=1", "checkpoint.keep=100"};
  const std::string stages = "8: batch.global=2, layout.data=1";
  const ScratchDirectory scratch;
  StageObserver whole;
  Train(stages, scratch / "run", whole, saves);
  ASSERT_EQ(whole.losses.size(), 6U);
  std::filesystem::remove_all(scratch / "run/checkpoints/step-000006");
  std::filesystem::remove_all(scratch / "run/checkpoints/step-000005");
  const std::string shard = scratch / "run/checkpoints/step-000004/shard-00000.safetensors";
  std::string bytes = ReadBytes(shard);
  bytes[bytes.size() - 3] = static_cast<char>(bytes[bytes.size() - 3] ^ 16);
  WriteBytes(shard, bytes);
  StageObserver again;
  const LoopResult end = Train(stages, scratch / "run", again, saves);
  EXPECT_EQ(end.end, LoopEnd::kFinished);
  EXPECT_EQ(end.consumed_samples, 16);
  EXPECT_THAT(again.stages, ElementsAre("stage 1 of 2, until sample 8: batch.global=2, layout.data=1",
                                        "stage 2 of 2: the recipe's own settings"));
  EXPECT_THAT(again.losses, ElementsAreArray(whole.losses.begin() + 3, whole.losses.end()));
}

}  // namespace
}  // namespace trireme
