#include "infer/sampling.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace trireme {
namespace {

// How often each token comes out of 1000 evenly spaced random numbers.
std::map<std::int32_t, int> Counts(const std::vector<float>& logits, const SamplingOptions& options) {
  std::map<std::int32_t, int> counts;
  for (int i = 0; i < 1000; ++i) {
    ++counts[SampleToken(logits, options, (i + 0.5) / 1000)];
  }
  return counts;
}

const std::vector<float> kLogits = {std::log(0.1F), std::log(0.4F), std::log(0.2F), std::log(0.3F)};

TEST(SampleToken, FollowsTheProbabilities) {
  EXPECT_EQ(Counts(kLogits, {}), (std::map<std::int32_t, int>{{0, 100}, {1, 400}, {2, 200}, {3, 300}}));
}

TEST(SampleToken, TemperatureSharpens) {
  const auto counts = Counts(kLogits, {.temperature = 0.5});  // probabilities go with their squares: 1, 16, 4, 9 of 30
  EXPECT_NEAR(counts.at(1), 1000.0 * 16 / 30, 1);
  EXPECT_NEAR(counts.at(0), 1000.0 * 1 / 30, 1);
  EXPECT_EQ(Counts(kLogits, {.temperature = 0}), (std::map<std::int32_t, int>{{1, 1000}}));
}

TEST(SampleToken, TopKKeepsTheMostLikely) {
  const auto counts = Counts(kLogits, {.top_k = 2});
  EXPECT_EQ(counts.size(), 2U);
  EXPECT_NEAR(counts.at(1), 1000.0 * 4 / 7, 1);
  EXPECT_NEAR(counts.at(3), 1000.0 * 3 / 7, 1);
}

TEST(SampleToken, TopPKeepsTheSmallestSetThatReachesIt) {
  EXPECT_EQ(Counts(kLogits, {.top_p = 0.35}).size(), 1U);
  EXPECT_EQ(Counts(kLogits, {.top_p = 0.69}).size(), 2U);
  EXPECT_EQ(Counts(kLogits, {.top_p = 0.71}).size(), 3U);
}

TEST(SampleToken, MinPDropsWhatIsFarFromTheMostLikely) {
  // Shares of the most likely one: 1, 3/4, and less.
  EXPECT_EQ(Counts(kLogits, {.min_p = 0.8}).size(), 1U);
  const auto counts = Counts(kLogits, {.min_p = 0.7});
  EXPECT_EQ(counts.size(), 2U);
  EXPECT_NEAR(counts.at(1), 1000.0 * 4 / 7, 1);
  EXPECT_EQ(Counts(kLogits, {.min_p = 0}), Counts(kLogits, {}));
}

TEST(LogProbability, IsTheModelsOwn) {
  const std::vector<float> logits = {std::log(1.0F), std::log(2.0F), std::log(5.0F)};
  EXPECT_NEAR(LogProbability(logits, 2), std::log(5.0 / 8), 1e-6);
  EXPECT_NEAR(LogProbability(logits, 0), std::log(1.0 / 8), 1e-6);
}

TEST(SampleToken, EqualTokensRankByNumber) {
  EXPECT_EQ(SampleToken(std::vector<float>{1, 2, 2}, {.temperature = 0}, 0.9), 1);
  EXPECT_EQ(SampleToken(std::vector<float>{2, 2, 2}, {.top_k = 2}, 0.9), 1);
}

TEST(SampleToken, RefusesOptionsThatMakeNoSense) {
  EXPECT_THROW(RequireSensible({.temperature = -1}), Error);
  EXPECT_THROW(RequireSensible({.top_k = -1}), Error);
  EXPECT_THROW(RequireSensible({.min_p = 1.5}), Error);
  EXPECT_THROW(RequireSensible({.top_p = 0}), Error);
  EXPECT_THROW(RequireSensible({.top_p = 1.5}), Error);
}

}  // namespace
}  // namespace trireme
