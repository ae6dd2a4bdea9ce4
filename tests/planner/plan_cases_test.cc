#include "planner/queries/plan_cases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "message_of.h"
#include "planner/fixtures.h"
#include "planner/queries/layout_words.h"

namespace trireme {
namespace {

using test::Machine;
using test::MessageOf;
using test::Source;
using testing::HasSubstr;
using testing::StartsWith;

// The 1.3B shape of the notes.
ModelConfig GptXl() {
  return Completed(
      ModelConfig{.family = "gpt2", .layers = 24, .hidden = 2048, .heads = 16, .vocabulary = 50257, .sequence = 2048});
}

RunRow CaseOf(const Machine& machine, const ModelConfig& model, const PlanOptions& options) {
  return PlanCase({.cluster = machine.cluster, .stack = machine.stack, .model = model, .compared = {}}, options);
}

TEST(CaseSettings, AreOptionsFilesAndWordsOfALayout) {
  const CaseQuestion base{.model = "a", .cluster = "b", .stack = "c", .shape = {}, .options = {.nodes = 4}};
  const CaseQuestion held = WithSettings(base, ParseCase("gpus=16; batch=2k; mbs=2; tp=4; stack=d; hidden=1024"));
  EXPECT_EQ(held.stack, "d");
  EXPECT_EQ(held.model, "a");
  EXPECT_EQ(held.options.nodes, 0) << "gpus take the place of nodes";
  EXPECT_EQ(held.options.gpus, 16);
  EXPECT_EQ(held.options.global_batch, 2000);
  EXPECT_EQ(held.options.fix, " mbs=2 tp=4");
  EXPECT_EQ(held.shape.hidden, 1024);
  const CaseQuestion whole = WithSettings(base, ParseCase("layout=pp=2; mbs=4; max-size=true; label=x"));
  EXPECT_EQ(whole.options.layout, "pp=2 mbs=4");
  EXPECT_TRUE(whole.options.max_size);
  EXPECT_THAT(MessageOf([&] { WithSettings(base, ParseCase("node=4")); }), HasSubstr("did you mean 'nodes'"));
  EXPECT_THAT(MessageOf([&] { WithSettings(base, ParseCase("nodes=many")); }), HasSubstr("'nodes' must be a number"));
}

TEST(PlanCase, ALayoutTakesAllDevicesUnlessItSaysOtherwise) {
  const Machine machine("jean-zay-v100-32g", "megatron-ds-2021");
  const RunRow row =
      CaseOf(machine, GptXl(), {.gpus = 8, .global_batch = 512, .layout = "tp=1 pp=2 mbs=1 zero=1 recompute=full"});
  EXPECT_EQ(row.failure, "");
  EXPECT_EQ(row.config.layout.data, 4);
  EXPECT_EQ(row.nodes, 2);
  EXPECT_NEAR(row.seconds, 30, 4);  // measured: 30 s
  EXPECT_GT(row.fit, 0.9);
  EXPECT_GT(row.hardware, 0);
  EXPECT_GT(row.mfu, 0);
}

TEST(PlanCase, EqualsThePlansOwnAnswer) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = test::SmallGpt();
  const PlanOptions options{.gpus = 4, .global_batch = 16};
  const RunRow row = CaseOf(machine, model, options);
  const PlanAnswer answer =
      AnswerPlan({.cluster = machine.cluster, .stack = machine.stack, .model = model, .compared = {}}, options);
  EXPECT_THAT(answer.text, HasSubstr("recommended " + NamedLayout(row.config.layout)));
  EXPECT_EQ(row.config.layout.ranks(), 4);
}

TEST(PlanCase, SaysWhyThereIsNoAnswer) {
  const Machine machine("jean-zay-v100-32g", "megatron-ds-2021");
  EXPECT_THAT(CaseOf(machine, GptXl(), {.gpus = 8, .global_batch = 512, .layout = "tp=3 pp=1 mbs=1"}).failure,
              StartsWith("refused: "));
  const RunRow full = CaseOf(machine, test::Bloom176b(),
                             {.gpus = 8, .global_batch = 64, .layout = "tp=4 pp=2 mbs=1 zero=1 recompute=full"});
  EXPECT_THAT(full.failure, StartsWith("out of memory: "));
  EXPECT_GT(full.memory, 32e9);
  EXPECT_EQ(CaseOf(machine, test::Bloom176b(), {.gpus = 8, .global_batch = 64}).failure,
            "refused: no layout fits: out of device memory");
}

TEST(PlanCase, ARowWithoutAnAnswerHasNoSizeAndNoLayout) {
  const Machine machine("jean-zay-v100-32g", "megatron-lm-2021");
  RunRow refused = CaseOf(machine, GptXl(), {.gpus = 8, .global_batch = 7, .fix = "tp=1 pp=1 dp=8", .max_size = true});
  refused.label = "none";
  EXPECT_THAT(refused.failure, StartsWith("refused: no model of the family fits"));
  const RunTable table = TableOf({refused});
  const std::vector<std::string> expected = {"none", "2", "8", "", "", "", "", "", "7"};
  EXPECT_EQ(std::vector(table.rows[0].begin(), table.rows[0].begin() + 9), expected);
}

// Keys that a case's layout does not name are searched, as those of --layout, and devices may be idle.
TEST(PlanCase, ALayoutIsCompletedAsThatOfAQuestion) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = test::SmallGpt();
  PlanOptions options{.gpus = 24, .global_batch = 16, .layout = "tp=2 pp=1 dp=8 recompute=none"};
  const RunRow row = CaseOf(machine, model, options);
  const PlanAnswer answer =
      AnswerPlan({.cluster = machine.cluster, .stack = machine.stack, .model = model, .compared = {}}, options);
  EXPECT_EQ(row.failure, "");
  EXPECT_EQ(row.config.layout.ranks(), 16);
  EXPECT_EQ(row.seconds, answer.json["seconds"]);
  options.layout.clear();
  options.fix = "tp=1 pp=1";
  EXPECT_THAT(CaseOf(machine, model, options).failure, HasSubstr("no layout fits"));
  options.at_most = true;
  EXPECT_LT(CaseOf(machine, model, options).config.layout.ranks(), 24);
  options.rows = 3;
  EXPECT_THAT(MessageOf([&] { CaseOf(machine, model, options); }), HasSubstr("a row of a table has no use for --rows"));
}

TEST(PlanCase, TheLargestModelGrowsWithTheDevices) {
  const Machine machine("jean-zay-v100-32g", "megatron-lm-2021");
  const auto largest = [&](int gpus) {
    return ParameterCount(
        CaseOf(machine, GptXl(),
               {.gpus = gpus, .global_batch = 64, .fix = "mbs=1 tp=4 recompute=full", .max_size = true})
            .config.model);
  };
  const std::int64_t few = largest(8);
  EXPECT_GT(few, 3'000'000'000);
  EXPECT_GT(largest(16), few * 3 / 2);
}

TEST(CaseFiles, ShippedOnesAreUnderstood) {
  int read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(Source("cases"))) {
    if (entry.path().extension() != ".toml") {
      continue;
    }
    const CaseList list = LoadCaseList(entry.path().string());
    EXPECT_FALSE(list.about.empty()) << entry.path();
    const CaseQuestion shared = WithSettings({}, list.common);
    for (const CaseSettings& settings : list.cases) {
      const CaseQuestion question = WithSettings(shared, settings);
      EXPECT_NO_THROW(RequireConsistent(question.options)) << entry.path() << " " << LabelOf(settings);
      EXPECT_TRUE(std::filesystem::exists(Source("clusters/" + question.cluster + ".toml"))) << entry.path();
      EXPECT_TRUE(std::filesystem::exists(Source("stacks/" + question.stack + ".toml"))) << entry.path();
      EXPECT_TRUE(question.model.empty() || std::filesystem::exists(Source("models/" + question.model + ".toml")))
          << entry.path();
    }
    ++read;
  }
  EXPECT_GE(read, 4);
}

}  // namespace
}  // namespace trireme
