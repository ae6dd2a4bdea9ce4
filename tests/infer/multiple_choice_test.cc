#include "infer/multiple_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "infer/small_model.h"

namespace trireme {
namespace {

std::string FaultOf(const std::string& line) {
  try {
    ParseQuestion(line, "file line 3");
  } catch (const Error& error) {
    return error.what();
  }
  return "no fault";
}

TEST(ParseQuestion, ReadsTheNamesThatTasksUse) {
  const Question one = ParseQuestion(R"({"query": "2 + 2 =", "choices": ["3", "4"], "gold": 1})", "x");
  EXPECT_EQ(one.context, "2 + 2 =");
  EXPECT_THAT(one.choices, testing::ElementsAre("3", "4"));
  EXPECT_EQ(one.gold, 1U);
  EXPECT_EQ(ParseQuestion(R"({"ctx": "a", "endings": ["b", "c"], "label": "1"})", "x").gold, 1U);
  EXPECT_EQ(ParseQuestion(R"({"question": "a", "choices": ["b", "c", "d"], "answer": "C"})", "x").gold, 2U);
  EXPECT_EQ(ParseQuestion(R"({"context": "a", "choices": ["b", "c"], "answer": "b"})", "x").gold, 0U);
}

TEST(ParseQuestion, NamesTheLineAndTheField) {
  EXPECT_THAT(FaultOf("{"), testing::HasSubstr("file line 3"));
  EXPECT_THAT(FaultOf("[1]"), testing::HasSubstr("no JSON object"));
  EXPECT_THAT(FaultOf(R"({"choices": ["a", "b"], "gold": 0})"), testing::HasSubstr("'query'"));
  EXPECT_THAT(FaultOf(R"({"query": "a", "choices": ["a"], "gold": 0})"), testing::HasSubstr("two or more"));
  EXPECT_THAT(FaultOf(R"({"query": "a", "choices": ["a", 2], "gold": 0})"), testing::HasSubstr("two or more"));
  EXPECT_THAT(FaultOf(R"({"query": "a", "choices": ["a", ""], "gold": 0})"), testing::HasSubstr("empty"));
  EXPECT_THAT(FaultOf(R"({"query": "a", "choices": ["a", "b"], "gold": 2})"), testing::HasSubstr("0 to 1"));
  EXPECT_THAT(FaultOf(R"({"query": "a", "choices": ["a", "b"], "gold": -1})"), testing::HasSubstr("-1"));
  EXPECT_THAT(FaultOf(R"({"query": "a", "choices": ["a", "b"], "gold": "Z"})"), testing::HasSubstr("none of the 2"));
}

// log p(answer | context) of a byte model, from the whole forward alone.
double ScoreByHand(InferenceModel& model, const std::string& context, const std::string& answer) {
  std::vector<std::int32_t> tokens;
  for (const char c : context + answer) {
    tokens.push_back(static_cast<std::uint8_t>(c));
  }
  model.RunWhole(1, std::span(tokens).first(tokens.size() - 1));
  const std::vector<float> losses = model.Losses(std::span(tokens).last(tokens.size() - 1));
  double sum = 0;
  for (std::size_t i = context.size() - 1; i < losses.size(); ++i) {
    sum -= losses[i];
  }
  return sum;
}

TEST(EvaluateChoices, ScoresTheAnswersTokensAfterTheContext) {
  RunConfig config = SmallModel("gpt2");
  config.model.vocabulary = 256;
  config.model.sequence = 24;
  const ScratchDirectory folder;
  TrainSmallModel(config, folder.path());
  const ModelFiles files = OpenModelFiles(folder.path());
  const auto tokenizer = LoadModelTokenizer(files, "");
  const std::vector<Question> questions = {{"to be or", {"not", "knot to be"}, 0}, {"one two ", {"three", "3"}, 1}};
  WithModel(files, {.options = {.batch = 3, .rows = 3 * config.model.sequence}}, [&](InferenceModel& model, int) {
    const double a = ScoreByHand(model, "to be or", " not");
    const double b = ScoreByHand(model, "to be or", " knot to be");
    const double c = ScoreByHand(model, "one two", " three");
    const double d = ScoreByHand(model, "one two", " 3");
    const ChoiceReport report = EvaluateChoices(model, questions, *tokenizer);
    EXPECT_EQ(report.questions, 2);
    EXPECT_DOUBLE_EQ(report.accuracy, ((a > b ? 1 : 0) + (d > c ? 1 : 0)) / 2.0);
    EXPECT_DOUBLE_EQ(report.normalised_accuracy, ((a / 3 > b / 10 ? 1 : 0) + (d > c / 5 ? 1 : 0)) / 2.0);
    EXPECT_NEAR(report.gold_loss, -(a + d) / 6, 1e-4);
  });
}

TEST(EvaluateChoices, AnAnswerLongerThanTheSequenceIsRefused) {
  RunConfig config = SmallModel("gpt2");
  config.model.vocabulary = 256;
  const ScratchDirectory folder;
  TrainSmallModel(config, folder.path());
  const ModelFiles files = OpenModelFiles(folder.path());
  const auto tokenizer = LoadModelTokenizer(files, "");
  const std::vector<Question> questions = {{"x", {"twelve letters", "b"}, 0}};
  EXPECT_THROW(WithModel(files, {.options = {.batch = 2, .rows = 2 * config.model.sequence}},
                         [&](InferenceModel& model, int) { EvaluateChoices(model, questions, *tokenizer); }),
               Error);
}

}  // namespace
}  // namespace trireme
