#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "base/error.h"
#include "operate/training_loop.h"

namespace trireme {
namespace {

TEST(Histogram, CountsByBucketsThatGrow) {
  Histogram histogram;
  histogram.Add(std::vector<float>{0, 1, 1.01F, -1, 1e30F, std::nanf("")});
  EXPECT_EQ(histogram.count, 5);
  EXPECT_EQ(histogram.others, 1);
  EXPECT_EQ(histogram.least, -1);
  EXPECT_EQ(histogram.most, static_cast<double>(1e30F));
  const std::vector<double>& edges = Histogram::Edges();
  for (std::size_t bucket = 0; bucket < edges.size(); ++bucket) {
    const double below = bucket == 0 ? -1e300 : edges[bucket - 1];
    std::int64_t expected = 0;
    for (const double value : {0.0, 1.0, static_cast<double>(1.01F), -1.0, static_cast<double>(1e30F)}) {
      expected += value >= below && value < edges[bucket] ? 1 : 0;
    }
    EXPECT_EQ(histogram.counts()[bucket], expected) << edges[bucket];
  }
}

// Keeps what a run hands to its observer.
class Keeper : public TrainingObserver {
 public:
  void HistogramsTaken(const StepHistograms& taken) override { histograms.push_back(taken); }
  std::vector<StepHistograms> histograms;
};

std::vector<TrainingObserver::StepHistograms> HistogramsOf(const std::vector<std::string>& keys) {
  std::vector<std::string> all = {
      "model.layers=2",       "model.hidden=16", "model.heads=2", "model.vocabulary=32",  "model.sequence=8",
      "layout.micro_batch=1", "batch.global=4",  "train.steps=3", "log.tensorboard=true", "log.histogram_every=2"};
  all.insert(all.end(), keys.begin(), keys.end());
  const RunConfig config = ParseRecipe("", "test.toml", all).config;
  Validate(config, config.layout.ranks());
  const auto source = OpenRunSource(config, "train");
  Keeper keeper;
  RunThreadRanks(config.layout.ranks(), {.kind = "cpu"},
                 [&](RankContext& context) { RunTraining(config, context, {.train = source.get()}, {}, &keeper); });
  return keeper.histograms;
}

// Any layout counts every element of every parameter once.
TEST(Histograms, OfAnyLayoutAreThoseOfOneRank) {
  const auto one = HistogramsOf({});
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one.front().step, 2);
  std::int64_t elements = 0;
  for (const auto& [name, histogram] : one.front().weights) {
    elements += histogram.count;
  }
  const RunConfig config =
      ParseRecipe("", "test.toml",
                  {"model.layers=2", "model.hidden=16", "model.heads=2", "model.vocabulary=32", "model.sequence=8"})
          .config;
  EXPECT_EQ(elements, ParameterCount(config.model));
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{"layout.tensor=2", "layout.data=2", "layout.zero=1"},
        {"layout.data=4", "layout.zero=3"},
        {"layout.pipeline=2", "layout.data=2"}}) {
    const auto many = HistogramsOf(layout);
    ASSERT_EQ(many.size(), 1U);
    ASSERT_EQ(many.front().weights.size(), one.front().weights.size());
    for (const auto& [name, expected] : one.front().weights) {
      const Histogram& found = many.front().weights.at(name);
      EXPECT_EQ(found.count, expected.count) << name;
      EXPECT_NEAR(found.sum, expected.sum, 1e-4) << name;
      EXPECT_NEAR(found.least, expected.least, 1e-5) << name;
      EXPECT_NEAR(found.most, expected.most, 1e-5) << name;
    }
    for (const auto& [name, expected] : one.front().gradients) {
      const Histogram& found = many.front().gradients.at(name);
      EXPECT_EQ(found.count, expected.count) << name;
      EXPECT_NEAR(found.squares, expected.squares, 1e-4 * expected.squares + 1e-12) << name;
    }
  }
}

TEST(Histograms, NeedEventFiles) {
  const RunConfig config = ParseRecipe("", "test.toml", {"log.histogram_every=2"}).config;
  EXPECT_THROW(Validate(config, 0), Error);
}

}  // namespace
}  // namespace trireme
