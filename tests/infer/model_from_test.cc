// model.from: training goes on from weights of another place, under any layout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "checkpoint/hugging_face/hugging_face.h"
#include "checkpoint/read/weight_source.h"
#include "comm/rank_runner.h"
#include "infer/small_model.h"
#include "operate/training_loop.h"

namespace trireme {
namespace {

class LossWatcher : public TrainingObserver {
 public:
  void StepDone(const StepFacts& facts) override { losses_.push_back(facts.result.loss); }
  const std::vector<double>& losses() const { return losses_; }

 private:
  std::vector<double> losses_;
};

std::vector<double> Losses(const RunConfig& config, const std::string& folder) {
  Validate(config, config.layout.ranks());
  const auto train = OpenRunSource(config, "train");
  LossWatcher watcher;
  RunThreadRanks(config.layout.ranks(), {.kind = "cpu"}, [&](RankContext& context) {
    RunTraining(config, context, {.train = train.get(), .validation = train.get()}, {.run_folder = folder}, &watcher);
  });
  return watcher.losses();
}

void ExpectClose(const std::vector<double>& expected, const std::vector<double>& actual) {
  ASSERT_EQ(expected.size(), actual.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], 1e-5 * expected[i]) << "step " << i + 1;
  }
}

class ModelFrom : public testing::TestWithParam<std::string> {
 protected:
  // A run, exported in one file and in shards.
  void SetUp() override {
    config_ = SmallModel(GetParam());
    config_.model.ffn = 4 * config_.model.hidden;  // all that BLOOM's files can say
    TrainSmallModel(config_, folder_ / "first");
    ExportHuggingFace(folder_ / "first", folder_ / "whole");
    ExportHuggingFace(folder_ / "first", folder_ / "sharded", {.shard_bytes = 30'000});
    ASSERT_TRUE(std::filesystem::exists(folder_ / "sharded/model.safetensors.index.json"));
    config_.train.seed = 7;
    config_.validation.every = 0;
  }

  RunConfig config_;
  ScratchDirectory folder_;
};

TEST_P(ModelFrom, GoesOnAlikeUnderEveryLayout) {
  // What an import gives to one rank.
  ImportHuggingFace(folder_ / "whole", folder_ / "imported/checkpoints");
  const std::vector<double> expected = Losses(config_, folder_ / "imported");
  const std::vector<double> fresh = Losses(config_, "");
  EXPECT_GT(std::abs(fresh.front() - expected.front()), 1e-4) << "weights that are drawn give another loss";
  const std::vector<ParallelLayout> layouts = {{},
                                               {.tensor = 2, .pipeline = 2, .data = 2, .zero = 3},
                                               {.tensor = 3, .data = 2, .zero = 1, .sequence_parallel = true},
                                               {.pipeline = 2, .data = 3, .zero = 2, .schedule = "zero_bubble"}};
  for (const char* from : {"whole", "sharded", "first"}) {
    for (const ParallelLayout& layout : layouts) {
      SCOPED_TRACE(from + (" " + layout.ToString()));
      config_.model_from = folder_ / from;
      config_.layout = layout;
      ExpectClose(expected, Losses(config_, ""));
    }
  }
}

TEST_P(ModelFrom, ARunComesBackFromItsOwnCheckpoint) {
  config_.model_from = folder_ / "sharded";
  config_.layout = {.tensor = 2, .data = 2, .zero = 1};
  const std::vector<double> whole = Losses(config_, folder_ / "uninterrupted");
  config_.train.steps = 2;
  std::vector<double> parts = Losses(config_, folder_ / "parts");
  // The weights it started from are needed no more.
  std::filesystem::remove_all(folder_ / "sharded");
  config_.train.steps = 4;
  for (const double loss : Losses(config_, folder_ / "parts")) {
    parts.push_back(loss);
  }
  EXPECT_EQ(parts, whole);
}

INSTANTIATE_TEST_SUITE_P(Families, ModelFrom, testing::Values("gpt2", "bloom", "llama"),
                         [](const auto& each) { return each.param; });

TEST(ModelFromPositions, FewerThanWereLearnedAreTheFirstOnes) {
  const ScratchDirectory folder;
  RunConfig config = SmallModel("gpt2");
  TrainSmallModel(config, folder / "first");
  ExportHuggingFace(folder / "first", folder / "exported");
  ModelConfig shorter = config.model;
  shorter.sequence = 5;
  const ParameterTable table(shorter);
  const Parameter& positions = table.rows()[static_cast<std::size_t>(table.Find("embedding.position"))];
  const SliceRun all{.count = positions.shape.count()};
  for (const char* path : {"first", "exported"}) {
    const auto weights = OpenWeights(folder / path);
    std::vector<float> values(static_cast<std::size_t>(all.count));
    weights->Read(positions, {&all, 1}, values.data());
    const Parameter longer = ParameterTable(config.model).rows()[static_cast<std::size_t>(table.Find(positions.name))];
    std::vector<float> learned(static_cast<std::size_t>(longer.shape.count()));
    const SliceRun every{.count = longer.shape.count()};
    weights->Read(longer, {&every, 1}, learned.data());
    learned.resize(values.size());
    EXPECT_EQ(values, learned) << path;
  }
  config.model_from = folder / "exported";
  config.model = shorter;
  EXPECT_EQ(Losses(config, "").size(), 4U);
  config.model.hidden = 96;
  EXPECT_THROW(Losses(config, ""), Error);
}

}  // namespace
}  // namespace trireme
