// What a context rank is given of a batch: its tokens in the order of its chunks, with their places and positions.
#include "train/batch_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "cost/rank_tensors.h"
#include "cost/step_cost.h"

namespace trireme {
namespace {

using testing::ElementsAre;

// Token t of sample s is 100 s + t; documents begin at 0 and 5.
class Counting final : public SampleSource {
 public:
  std::int64_t vocabulary() const override { return 1000; }
  std::string description() const override { return "counting"; }
  Sample Get(std::int64_t index) const override {
    Sample sample;
    sample.tokens.resize(9);
    std::iota(sample.tokens.begin(), sample.tokens.end(), static_cast<std::int32_t>(100 * index));
    sample.document_starts = {0, 0, 0, 0, 0, 5, 5, 5};
    return sample;
  }
};

// The second of two context ranks of a micro batch of one.
class LoaderOfRank {
 public:
  explicit LoaderOfRank(ContextKind kind)
      : config_(ConfigOf(kind)),
        device_(MakeDevice({.kind = "cpu"})),
        stage_(config_, 0, 1, 1),
        arena_(*device_, MemoryOfStage(stage_.description())),
        loader_(arena_, stage_.description().sizes, StepTensors(stage_.description()), {.document_masks = true}),
        batch_(loader_.LoadTraining(Counting(), 3, 1).front()) {}

  const MicroBatch& batch() const { return batch_; }
  std::vector<std::int32_t> Read(const Tensor& tensor) const {
    std::vector<std::int32_t> values(static_cast<std::size_t>(tensor.count()));
    device_->CopyToHost(values.data(), tensor.data, tensor.bytes());
    return values;
  }

 private:
  static RunConfig ConfigOf(ContextKind kind) {
    RunConfig config;
    config.model.family = "gpt2";
    config.model.layers = 1;
    config.model.hidden = 8;
    config.model.heads = 2;
    config.model.vocabulary = 1000;
    config.model.sequence = 8;
    config.model = Completed(config.model);
    config.batch.global = 1;
    config.layout.micro_batch = 1;
    config.layout.context = 2;
    config.layout.context_kind = kind;
    config.data.document_masks = true;
    config.data.document_positions = true;
    return config;
  }

  RunConfig config_;
  std::unique_ptr<Device> device_;
  StageOfRun stage_;
  Arena arena_;
  BatchLoader loader_;
  MicroBatch batch_;
};

TEST(BatchLoader, GivesAContextRankItsTwoChunks) {
  const LoaderOfRank rank(ContextKind::kRing);
  EXPECT_THAT(rank.Read(rank.batch().tokens), ElementsAre(302, 303, 304, 305));
  EXPECT_THAT(rank.Read(rank.batch().targets), ElementsAre(303, 304, 305, 306));
  EXPECT_THAT(rank.Read(rank.batch().places), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(rank.Read(rank.batch().document_starts), ElementsAre(0, 0, 0, 5));
}

TEST(BatchLoader, PositionsBeginAnewWithEveryDocument) {
  const LoaderOfRank rank(ContextKind::kAllGather);
  EXPECT_THAT(rank.Read(rank.batch().positions), ElementsAre(2, 3, 4, 0));
  EXPECT_THAT(rank.Read(rank.batch().PositionsOrPlaces()), ElementsAre(2, 3, 4, 0));
}

// Ulysses: attention has the queries of both ranks.
TEST(BatchLoader, DocumentsAreThoseOfTheQueriesThatAttentionHas) {
  const LoaderOfRank rank(ContextKind::kUlysses);
  EXPECT_THAT(rank.Read(rank.batch().document_starts), ElementsAre(0, 0, 0, 0, 0, 5, 5, 5));
  EXPECT_THAT(rank.Read(rank.batch().positions), ElementsAre(2, 3, 4, 0));
}

}  // namespace
}  // namespace trireme
