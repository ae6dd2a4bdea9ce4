#include "planner/queries/plan_question.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "planner/fixtures.h"
#include "planner/queries/plan_answer.h"

namespace trireme {
namespace {

using test::kLlamaConfig;
using test::Machine;
using test::SmallGpt;
using test::Source;
using testing::HasSubstr;

std::string TextOf(const std::string& path) {
  std::ifstream file(Source(path));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// About SmallGpt on dgx-h100.
nlohmann::json Question(const nlohmann::json& options) {
  nlohmann::json all{{"layers", 8}, {"hidden", 512}, {"heads", 8}, {"vocabulary", 50257}, {"sequence", 256}};
  all.update(options);
  return {{"cluster", TextOf("clusters/dgx-h100.toml")},
          {"stack", TextOf("stacks/trireme.toml")},
          {"model", nlohmann::json::object()},
          {"options", all}};
}

nlohmann::json Ask(const nlohmann::json& question) { return ParseJson(AnswerQuestion(JsonText(question))); }

std::string ErrorOf(const nlohmann::json& question) { return Ask(question).value("error", "no error"); }

TEST(PlanQuestion, AnswersWhatTheCommandDoes) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = SmallGpt();
  const PlanOptions plan{
      .gpus = 4, .rows = 3, .threads = 1, .global_batch = 16, .tokens = 1e9, .emit = "recipe", .estimate = true};
  const PlanAnswer expected =
      AnswerPlan({.cluster = machine.cluster, .stack = machine.stack, .model = model, .compared = {}}, plan);
  const nlohmann::json answer = Ask(Question(
      {{"gpus", 4}, {"rows", 3}, {"global-batch", 16}, {"tokens", 1e9}, {"emit", "recipe"}, {"estimate", true}}));
  EXPECT_EQ(answer.at("text"), expected.text);
  EXPECT_EQ(answer.at("json"), ParseJson(JsonText(expected.json)));
  EXPECT_EQ(answer.at("found"), true);
  ASSERT_EQ(answer.at("files").size(), 1U);
  EXPECT_EQ(answer.at("files")[0].at("path"), "planned.toml");
  EXPECT_EQ(answer.at("files")[0].at("text"), expected.files[0].text);
  EXPECT_EQ(answer.at("about").at("devices_per_node"), 8);
}

TEST(PlanQuestion, TakesModelFilesAndConfigsOfHuggingFace) {
  nlohmann::json question = Question(nlohmann::json::object());
  question["options"] = nlohmann::json::object();
  question["describe"] = true;
  question["model"] = {{"config", kLlamaConfig}};
  const nlohmann::json pasted = Ask(question);
  EXPECT_EQ(pasted.at("about").at("kv_heads"), 8);
  EXPECT_FALSE(pasted.contains("text"));
  question["model"] = {{"recipe", TextOf("models/bloom-176b.toml")}};
  EXPECT_EQ(Ask(question).at("about").at("layers"), 70);
}

TEST(PlanQuestion, MistakesAreAnsweredInTheCommandsWords) {
  EXPECT_THAT(ErrorOf(Question({{"nodes", 2}, {"gpus", 3}})), HasSubstr("give one of them"));
  EXPECT_THAT(ErrorOf(Question({{"knodes", 2}})), HasSubstr("no option 'knodes'"));
  EXPECT_THAT(ErrorOf(Question({{"nodes", "2"}})), HasSubstr("'nodes' must be a number"));
  EXPECT_THAT(ErrorOf(Question({{"nodes", 1.5}})), HasSubstr("whole number"));
  EXPECT_THAT(ErrorOf(Question({{"nodes", -1}})), HasSubstr("above 0"));
  EXPECT_THAT(ErrorOf(Question({{"nodes", 1e12}})), HasSubstr("whole number"));
  EXPECT_THAT(ErrorOf(Question({{"estimate", 1}})), HasSubstr("true or false"));
  EXPECT_THAT(ErrorOf(Question({{"fix", 1}})), HasSubstr("must be a text"));
  EXPECT_THAT(ErrorOf(Question({{"fix", "tq=1"}})), HasSubstr("tq"));
  nlohmann::json question = Question(nlohmann::json::object());
  question["cluster"] = "nodes = ";
  EXPECT_THAT(ErrorOf(question), HasSubstr("the cluster's file, line 1"));
  question.erase("cluster");
  EXPECT_NE(ErrorOf(question), "no error");
  EXPECT_THAT(ParseJson(AnswerQuestion("{")).value("error", ""), HasSubstr("parse error"));
  EXPECT_THAT(AnswerQuestion("\"\xff\xfe\""), HasSubstr("error"));
}

}  // namespace
}  // namespace trireme
