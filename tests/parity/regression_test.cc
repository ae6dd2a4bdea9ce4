// Silent errors that other trainers had, one named test a class. docs/reference/regressions.md says what went wrong
// where.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "comm/rank_runner.h"
#include "data/dataset/indexed_dataset_writer.h"
#include "message_of.h"
#include "operate/training_loop.h"
#include "parity/parity.h"
#include "scratch_directory.h"

namespace trireme::parity {
namespace {

constexpr int kSteps = 3;

RunConfig Short(const std::string& family) {
  RunConfig config = SmallRun(family);
  config.train.steps = kSteps;
  return config;
}

void ExpectAsOneRank(RunConfig config, const ParallelLayout& layout) {
  config.layout = layout;
  SCOPED_TRACE(config.model.family + " " + layout.ToString());
  ExpectLaw(config);
}

// Documents of 1 to 9 tokens: every sample has another number of targets.
std::string UnevenDocuments(const ScratchDirectory& folder) {
  IndexedDatasetWriter writer(folder / "uneven", TokenKind::kUInt16);
  for (std::int32_t document = 0; document < 60; ++document) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(1 + document * 7 % 9));
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<std::int32_t>(RandomBelow(5, static_cast<std::uint64_t>(document) * 16 + i, 90));
    }
    writer.AddSequence(tokens);
    writer.EndDocument();
  }
  writer.Finish();
  return folder / "uneven.bin";
}

TEST(Regression, AccumulatedMicroBatchesCountTokensNotMicroBatches) {
  const ScratchDirectory folder;
  RunConfig config = Short("gpt2");
  config.data.source = UnevenDocuments(folder);
  config.data.split = "80,20,0";
  config.data.document_masks = true;
  config.data.padding_masks = true;
  config.layout.micro_batch = 12;
  const Outcome whole = Train({.config = config, .steps = kSteps});
  for (const ParallelLayout& layout : {ParallelLayout{.micro_batch = 1}, ParallelLayout{.micro_batch = 3},
                                       ParallelLayout{.data = 4, .micro_batch = 1}}) {
    config.layout = layout;
    SCOPED_TRACE(layout.ToString());
    ExpectSame(whole, Train({.config = config, .steps = kSteps}), 1e-5);
  }
}

TEST(Regression, SequenceParallelRanksAddUpGradientsOfNormsAndBiases) {
  for (const std::string family : {"gpt2", "bloom", "llama"}) {
    ExpectAsOneRank(Short(family), {.tensor = 4, .sequence_parallel = true, .micro_batch = 1});
  }
}

TEST(Regression, ClippingCountsReplicatedParametersOnce) {
  RunConfig config = Short("gpt2");
  config.optimizer.clip = 0.01;  // always active
  for (const bool sequence_parallel : {false, true}) {
    ExpectAsOneRank(config, {.tensor = 4, .sequence_parallel = sequence_parallel, .micro_batch = 1});
  }
}

TEST(Regression, ClippingCountsATiedTableOnTwoStagesOnce) {
  RunConfig config = Short("bloom");
  config.optimizer.clip = 0.01;
  for (const int zero : {0, 1, 3}) {
    ExpectAsOneRank(config, {.pipeline = 4, .data = 2, .zero = zero, .micro_batch = 1});
  }
}

// The two owners of a tied table have other parameters beside it, so that their shards could be cut differently.
TEST(Regression, TiedTablesOfTwoStagesAddUpTheSameElements) {
  for (const int zero : {1, 2, 3}) {
    ExpectAsOneRank(Short("gpt2"), {.tensor = 2, .pipeline = 2, .data = 3, .zero = zero, .micro_batch = 1});
  }
}

TEST(Regression, TiedTablesOfInterleavedStagesStayOne) {
  ExpectAsOneRank(Short("gpt2"),
                  {.pipeline = 2, .data = 2, .zero = 1, .schedule = "interleaved", .chunks = 2, .micro_batch = 1});
}

TEST(Regression, RecomputedDropoutIsThatOfTheForward) {
  RunConfig config = Short("gpt2");
  config.model.dropout = 0.3;
  const Outcome kept = Train({.config = config, .steps = kSteps});
  for (const Recompute recompute : {Recompute::kLight, Recompute::kSelective, Recompute::kFull}) {
    config.layout.recompute = recompute;
    ExpectSame(kept, Train({.config = config, .steps = kSteps}), 1e-6);
  }
}

TEST(Regression, DropoutOfARankIsThatOfItsTokens) {
  RunConfig config = Short("bloom");
  config.model.dropout = 0.3;
  ExpectAsOneRank(config, {.tensor = 4, .sequence_parallel = true, .micro_batch = 1});
  ExpectAsOneRank(config, {.pipeline = 2, .data = 3, .zero = 3, .micro_batch = 2});
}

TEST(Regression, KeyHeadsSharedByQueriesGetTheGradientsOfAll) {
  RunConfig config = Short("llama");
  config.model.kv_heads = 2;
  ExpectAsOneRank(config, {.tensor = 2, .micro_batch = 1});
  ExpectAsOneRank(config, {.tensor = 2, .sequence_parallel = true, .micro_batch = 1});
  config.model.kv_heads = 1;  // cannot be cut: refused, not copied with half a gradient
  config.layout = {.tensor = 2, .micro_batch = 1};
  EXPECT_THAT(test::MessageOf([&] { Validate(config, 2); }), testing::HasSubstr("kv_heads"));
}

// Flattened tokens are cut, so that the rows of ranks 1 and 3 begin in the middle of a sequence.
TEST(Regression, PositionsOfACutSequenceAreGlobal) {
  for (const std::string family : {"gpt2", "bloom", "llama"}) {
    RunConfig config = Short(family);
    config.model.sequence = 10;
    ExpectAsOneRank(config, {.tensor = 4, .sequence_parallel = true, .micro_batch = 2});
  }
}

TEST(Regression, ReductionsWaitForTheLastMicroBatch) {
  for (const int zero : {0, 1}) {
    ExpectAsOneRank(Short("gpt2"), {.data = 3, .zero = zero, .micro_batch = 1});
    ExpectAsOneRank(Short("llama"),
                    {.pipeline = 2, .data = 2, .zero = zero, .schedule = "zero_bubble", .micro_batch = 1});
  }
}

TEST(Regression, ForwardTakesTheWeightsOfTheLastUpdate) {
  for (const int zero : {1, 2, 3}) {
    ExpectAsOneRank(Short("gpt2"),
                    {.pipeline = 2, .data = 2, .zero = zero, .schedule = "interleaved", .chunks = 2, .micro_batch = 1});
  }
}

TEST(Regression, AuxiliaryLossesAreScaledAsTheLoss) {
  RunConfig config = Short("gpt2");
  config.train.z_loss = 0.05;
  ExpectAsOneRank(config, {.tensor = 2, .pipeline = 2, .data = 2, .micro_batch = 1});
  config.layout = {.micro_batch = 12};
  const Outcome whole = Train({.config = config, .steps = kSteps});
  config.layout.micro_batch = 1;
  ExpectSame(whole, Train({.config = config, .steps = kSteps}), 1e-5);
}

TEST(Regression, PaddingOfShardsAndVocabularyStaysZero) {
  RunConfig config = Short("llama");
  config.model.vocabulary = 83;  // 4 ranks hold 24 rows each, 13 of them padding
  config.batch.global = 14;
  for (const int zero : {1, 2, 3}) {
    ExpectAsOneRank(config, {.tensor = 4, .data = 7, .zero = zero, .micro_batch = 1});
  }
}

// One sample again and again.
class OneSample : public SampleSource {
 public:
  explicit OneSample(const RunConfig& config) : config_(config) {}
  std::int64_t vocabulary() const override { return config_.model.vocabulary; }
  std::string description() const override { return "one sample"; }
  Sample Get(std::int64_t) const override {
    Sample sample;
    for (std::int64_t i = 0; i <= config_.model.sequence; ++i) {
      sample.tokens.push_back(static_cast<std::int32_t>(RandomBelow(8, static_cast<std::uint64_t>(i), 90)));
    }
    return sample;
  }

 private:
  const RunConfig& config_;
};

// 512 equal gradients are summed: in bf16 the sum would stand still at 256 times the first.
TEST(Regression, GradientsOfManyMicroBatchesAreSummedInFloat) {
  RunConfig config = Short("gpt2");
  config.model.layers = 1;
  config.train.dtype = "bf16";
  std::vector<StepResult> results;
  for (const std::int64_t batch : {1, 512}) {
    config.batch.global = batch;
    const OneSample source(config);
    Validate(config, 1);
    RunThreadRanks(1, {.kind = "cpu"}, [&](RankContext& context) {
      Trainer trainer(config, context, {.train = &source});
      results.push_back(trainer.Step());
    });
  }
  EXPECT_NEAR(results[1].gradient_norm, results[0].gradient_norm, 1e-4 * results[0].gradient_norm);
  EXPECT_NEAR(results[1].loss, results[0].loss, 1e-5 * results[0].loss);
}

using States = std::vector<std::vector<float>>;

States Copied(Trainer& trainer) {
  States states;
  for (const OwnedState& state : trainer.JoinState()) {
    CopyValues(trainer.device(), state.values,
               states.emplace_back(static_cast<std::size_t>(state.values.count())).data());
  }
  return states;
}

// An epoch has 9 windows and a step 4: the run is stopped in the middle of its second epoch.
TEST(Regression, AResumedRunGoesOnInTheMiddleOfAnEpoch) {
  const ScratchDirectory folder;
  RunConfig config = Short("gpt2");
  config.model.vocabulary = 256;
  config.model.dropout = 0.2;
  config.batch.global = 4;
  config.data.source = folder / "text";
  config.data.split = "100,0,0";
  std::string text;
  for (std::uint64_t i = 0; i < 9 * 12 + 1; ++i) {
    text += static_cast<char>('a' + RandomBelow(6, i, 26));
  }
  WriteBytes(config.data.source, text);
  const auto source = OpenRunSource(config, "train");
  std::vector<double> whole;
  std::vector<double> resumed;
  RunThreadRanks(1, {.kind = "cpu"}, [&](RankContext& context) {
    {
      Trainer trainer(config, context, {.train = source.get()});
      for (int step = 0; step < 8; ++step) {
        whole.push_back(trainer.Step().loss);
      }
    }
    States states;
    Progress progress;
    {
      Trainer trainer(config, context, {.train = source.get()});
      for (int step = 0; step < 3; ++step) {
        trainer.Step();
      }
      states = Copied(trainer);
      progress = trainer.progress();
    }
    Trainer trainer(config, context, {.train = source.get()});
    const std::vector<OwnedState> views = trainer.JoinState();
    ASSERT_EQ(views.size(), states.size());
    for (std::size_t i = 0; i < views.size(); ++i) {
      CopyValues(trainer.device(), states[i], views[i].values);
    }
    trainer.Restore(progress);
    for (int step = 3; step < 8; ++step) {
      resumed.push_back(trainer.Step().loss);
    }
  });
  EXPECT_EQ(resumed, std::vector<double>(whole.begin() + 3, whole.end()));
}

}  // namespace
}  // namespace trireme::parity
