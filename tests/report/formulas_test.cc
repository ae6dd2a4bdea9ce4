#include "cost/formulas.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "gpt_shape.h"

namespace trireme {
namespace {

ModelConfig Gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  return test::GptShape(layers, hidden, heads, 51200);
}

TEST(Formulas, TheWorkedExampleOfTrainingTime) {
  // 300B tokens, 200B parameters, 350 GPUs at 150 TFLOP/s, with recomputation.
  EXPECT_NEAR(TrainingDays(300e9, 200e9, 350, 150e12, true), 105.82, 0.005);
  EXPECT_NEAR(TrainingDeviceHours(300e9, 200e9, 150e12, true), 888889, 0.5);
  EXPECT_NEAR(TrainingDays(300e9, 200e9, 350, 150e12, false), 105.82 * 6 / 8, 0.005);
}

TEST(Formulas, TheEstimateIsSixOrEightFlopsAParameterAndToken) {
  const ModelConfig config = Gpt(24, 2048, 16);
  const auto parameters = static_cast<double>(ParameterCount(config));
  EXPECT_DOUBLE_EQ(EstimatedFlops(config, 512, false), 6 * parameters * 512 * 2048);
  EXPECT_DOUBLE_EQ(EstimatedFlops(config, 512, true), 8 * parameters * 512 * 2048);
}

TEST(Formulas, MegatronsFormulaAsPublished) {
  const ModelConfig config = Gpt(24, 2048, 16);
  const double h = 2048;
  const double s = 2048;
  const double expected = 96.0 * 512 * s * 24 * h * h * (1 + s / (6 * h) + 51200 / (16 * 24 * h));
  EXPECT_DOUBLE_EQ(MegatronFlops(config, 512, true), expected);
  EXPECT_DOUBLE_EQ(MegatronFlops(config, 512, false), expected * 3 / 4);
}

TEST(Formulas, ModelFlopsCountGroupedQueriesAndGates) {
  ModelConfig config;
  config.family = "llama";
  config.layers = 3;
  config.hidden = 64;
  config.heads = 8;
  config.kv_heads = 2;
  config.ffn = 96;
  config.vocabulary = 100;
  config.sequence = 32;
  config = Completed(config);
  const double feed_forward = 3 * 64 * 96;
  const double attention = 64 * (64 + 2 * 16) + 64 * 64;
  const double token = 6 * 3 * (feed_forward + attention) + 6 * 64 * 100;
  EXPECT_DOUBLE_EQ(ModelFlops(config, 5), 5 * 32 * token + 6.0 * 5 * 32 * 32 * 64 * 3);
}

TEST(HumanBytes, ThreeDigitsAndAUnit) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(999), "999 B");
  EXPECT_EQ(HumanBytes(1500), "1.5 kB");
  EXPECT_EQ(HumanBytes(80'000'000'000), "80.0 GB");
}

}  // namespace
}  // namespace trireme
