#include "planner/queries/formula.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cost/formulas.h"
#include "message_of.h"
#include "model/parameter_table.h"

namespace trireme {
namespace {

using test::MessageOf;
using testing::HasSubstr;

ModelConfig Gpt13() {
  return Completed(
      ModelConfig{.family = "gpt2", .layers = 24, .hidden = 2048, .heads = 16, .vocabulary = 50257, .sequence = 2048});
}

TEST(Formula, TflopsOfAMeasuredStepByThreeFormulas) {
  const FormulaAnswer answer = AnswerFormula({.model = Gpt13(), .devices = 8, .global_batch = 512, .seconds = 29});
  const double each = 29 * 8 * 1e12;
  EXPECT_DOUBLE_EQ(answer.json["tflops"]["4x"], EstimatedFlops(Gpt13(), 512, true) / each);
  EXPECT_DOUBLE_EQ(answer.json["tflops"]["megatron"], MegatronFlops(Gpt13(), 512, true) / each);
  EXPECT_DOUBLE_EQ(answer.json["tflops"]["model"], ModelFlops(Gpt13(), 512) / each);
  EXPECT_THAT(answer.text, HasSubstr("512 samples x 2048 tokens = 1,048,576 tokens in 29 s on 8 devices"));
  const FormulaAnswer without =
      AnswerFormula({.model = Gpt13(), .devices = 8, .global_batch = 512, .seconds = 29, .recomputation = false});
  EXPECT_DOUBLE_EQ(without.json["tflops"]["3x"].get<double>() / answer.json["tflops"]["4x"].get<double>(), 0.75);
}

// The estimate of a run of 176B: 8 x tokens x parameters / (devices x rate).
TEST(Formula, DaysAtAnAssumedRate) {
  const FormulaAnswer answer =
      AnswerFormula({.parameters = 176e9, .devices = 384, .tflops = 150, .tokens = 350e9, .price = 2});
  EXPECT_NEAR(answer.json["days"], 8.0 * 350e9 * 176e9 / (384 * 150e12) / 86'400, 1e-9);
  EXPECT_NEAR(answer.json["cost"], 2 * answer.json["device_hours"].get<double>(), 1e-6);
  EXPECT_THAT(answer.text, HasSubstr("8 x 350B tokens x 176B parameters / (150 TFLOP/s x 3600)"));
  // The rate of a measured step serves where none is assumed.
  const FormulaAnswer measured =
      AnswerFormula({.model = Gpt13(), .devices = 8, .global_batch = 512, .seconds = 29, .tokens = 100e9});
  EXPECT_NEAR(measured.json["days"], 100e9 / (512 * 2048) * 29 / 86'400, 0.01);
}

TEST(Formula, PartsOfAShapeAddUp) {
  const FormulaAnswer answer = AnswerFormula({.model = Gpt13(), .tensor = 4, .data = 2});
  EXPECT_EQ(answer.json["parameters"], static_cast<double>(ParameterCount(Gpt13())));
  EXPECT_NEAR(answer.json["ratio"], 2048.0 / 24, 1e-9);
  const double layer = answer.json["layer"]["parameters"];
  EXPECT_EQ(layer, 12.0 * 2048 * 2048 + 13 * 2048);
  EXPECT_DOUBLE_EQ(answer.json["layer"]["bytes"], layer / 4 * (2 + 4 + 12.0 / 2));
  EXPECT_EQ(answer.json["embedding"]["parameters"], 50257.0 * 2048);
}

TEST(Formula, SaysWhatElseItNeeds) {
  EXPECT_THAT(MessageOf([] { AnswerFormula({}); }), HasSubstr("nothing to work out"));
  EXPECT_THAT(MessageOf([] { AnswerFormula({.model = Gpt13(), .seconds = 3}); }), HasSubstr("--gpus, --global-batch"));
  EXPECT_THAT(MessageOf([] { AnswerFormula({.parameters = 1e9, .tokens = 1e9}); }), HasSubstr("--tflops"));
  EXPECT_THAT(MessageOf([] { AnswerFormula({.model = Gpt13(), .parameters = 1e9}); }), HasSubstr("--parameters"));
}

}  // namespace
}  // namespace trireme
