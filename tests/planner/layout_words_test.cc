// Layouts of which some keys are named: what is free is searched, and what is printed can be pasted.
#include "planner/queries/layout_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "message_of.h"
#include "planner/fixtures.h"
#include "planner/queries/complete_layout.h"
#include "planner/queries/plan_answer.h"

namespace trireme {
namespace {

using test::Bloom176b;
using test::Machine;
using test::MessageOf;
using test::SmallGpt;
using testing::HasSubstr;
using testing::Not;

ModelConfig Llama70b() {
  return Completed(ModelConfig{.family = "llama",
                               .layers = 80,
                               .hidden = 8192,
                               .heads = 64,
                               .kv_heads = 8,
                               .ffn = 28672,
                               .vocabulary = 128256,
                               .sequence = 8192});
}

PlanAnswer Answer(const Machine& machine, const ModelConfig& model, const PlanOptions& options) {
  return AnswerPlan({.cluster = machine.cluster, .stack = machine.stack, .model = model, .compared = {}}, options);
}

// Every row, pasted, is the same layout and takes as long to the last bit.
void ExpectRowsToPaste(const Machine& machine, const ModelConfig& model, PlanOptions options) {
  const nlohmann::json ranking = Answer(machine, model, options).json;
  ASSERT_GT(ranking["ranked"].size(), 4U);
  options.rows = 0;
  options.fix = "";
  for (const nlohmann::json& row : ranking["ranked"]) {
    options.layout = row["layout"];
    const PlanAnswer pasted = Answer(machine, model, options);
    EXPECT_EQ(pasted.json["layout"], row["layout"]);
    EXPECT_EQ(pasted.json["seconds"].get<double>(), row["seconds"].get<double>()) << row["layout"];
    EXPECT_EQ(pasted.json["peak_gib"].get<double>(), row["peak_gib"].get<double>()) << row["layout"];
    EXPECT_EQ(pasted.json["chosen"], "") << "nothing is left to choose";
  }
}

TEST(NamedLayout, EveryRankedRowCanBePasted) {
  ExpectRowsToPaste(Machine("dgx-h100", "trireme"), SmallGpt(10), {.gpus = 16, .rows = 12, .global_batch = 64});
  ExpectRowsToPaste(Machine("jean-zay-a100", "megatron-ds-2022"), Bloom176b(),
                    {.gpus = 384, .rows = 12, .global_batch = 2048, .fix = "tp=4"});
  ExpectRowsToPaste(Machine("dgx-h100", "trireme"), SmallGpt(),
                    {.gpus = 8, .most_context = 2, .rows = 12, .global_batch = 8, .fix = "cp=2"});
}

TEST(NamedLayout, NamesDefaultsTooAndReadsBack) {
  const ParallelLayout plain;
  EXPECT_EQ(NamedLayout(plain), "tp1 cp1 pp1 dp1 zero0 1f1b chunks1 mbs1 uniform recompute=none offload=none sp0");
  const ParallelLayout rich{.tensor = 4,
                            .context = 2,
                            .pipeline = 3,
                            .data = 2,
                            .zero = 3,
                            .schedule = "interleaved",
                            .chunks = 2,
                            .partition = "2,2,1,1,2,2",
                            .sequence_parallel = true,
                            .recompute = Recompute::kSelective,
                            .micro_batch = 4,
                            .offload = Offload::kOptimizer,
                            .shard_ranks = 2,
                            .whole_below = 10,
                            .reduce = WireFormat::kInt8,
                            .offload_activations = true,
                            .context_kind = ContextKind::kRing};
  EXPECT_EQ(ParseLayout(NamedLayout(rich), {}), rich) << NamedLayout(rich);
  EXPECT_EQ(NamedKeys(rich, {"zero", "partition"}), "zero3 partition=2,2,1,1,2,2");
}

TEST(CompleteLayout, KeysThatAreNotNamedTakeTheBestValues) {
  const Machine machine("dgx-h100", "trireme");
  PlanOptions options{.gpus = 64, .global_batch = 512, .layout = "tp=4 pp=4 dp=4 mbs=1"};
  const PlanAnswer free = Answer(machine, Llama70b(), options);
  EXPECT_LE(free.json["peak_gib"].get<double>(), 80);
  EXPECT_THAT(free.text, HasSubstr("chosen: zero"));
  EXPECT_THAT(free.json["layout"], HasSubstr("tp4 cp1 pp4 dp4"));
  options.layout_defaults = true;
  const PlanAnswer defaults = Answer(machine, Llama70b(), options);
  EXPECT_GT(defaults.json["peak_gib"].get<double>(), 80) << "ZeRO 0 without recomputation does not fit";
  EXPECT_EQ(defaults.json["chosen"], "");
  // A named key wins, also where another value is better.
  options.layout_defaults = false;
  options.layout = "tp=4 pp=4 dp=4 mbs=1 recompute=full zero=1";
  const PlanAnswer held = Answer(machine, Llama70b(), options);
  EXPECT_THAT(held.json["layout"], HasSubstr("zero1"));
  EXPECT_THAT(held.json["layout"], HasSubstr("recompute=full"));
  EXPECT_GE(held.json["seconds"].get<double>(), free.json["seconds"].get<double>() * 0.96) << "but for ties";
  EXPECT_THAT(held.json["chosen"].get<std::string>(), Not(HasSubstr("zero")));
  // Pasted, the completed layout is what it was.
  options.layout = free.json["layout"];
  EXPECT_EQ(Answer(machine, Llama70b(), options).json["seconds"], free.json["seconds"]);
}

TEST(CompleteLayout, FewerRanksThanDevicesLeaveTheRestIdle) {
  const Machine machine("jean-zay-a100", "megatron-ds-2022");
  const PlanAnswer answer =
      Answer(machine, Bloom176b(),
             {.nodes = 48, .global_batch = 2048, .layout = "tp=8 pp=10 dp=4 mbs=2 recompute=full zero=1"});
  EXPECT_THAT(answer.text, HasSubstr("320 of 384 devices work"));
  EXPECT_EQ(answer.json["idle"], 64);
  EXPECT_EQ(answer.json["devices"], 320);
  EXPECT_THAT(MessageOf([&] {
                Answer(machine, Bloom176b(), {.nodes = 1, .global_batch = 2048, .layout = "tp=8 pp=10 dp=4 mbs=2"});
              }),
              HasSubstr("320 ranks, but 8 devices"));
}

TEST(CompleteLayout, WhereNothingFitsDefaultsAreExplained) {
  const Machine machine("dgx-h100", "trireme");
  const PlanAnswer answer =
      Answer(machine, Llama70b(), {.gpus = 8, .global_batch = 512, .layout = "tp=1 pp=1 dp=8 offload=none"});
  EXPECT_THAT(answer.text, HasSubstr("no values of the keys that are free make it fit"));
  EXPECT_THAT(answer.text, HasSubstr("OUT OF MEMORY"));
}

TEST(HoldKeys, AnAxisBeyondTheLimitIsHeldAsAsked) {
  const Machine machine("perlmutter", "megatron-ds-2023");
  const PlanAnswer answer =
      Answer(machine, Bloom176b(), {.gpus = 128, .rows = 1, .global_batch = 256, .fix = "tp=8 pp=16 recompute=full"});
  ASSERT_TRUE(answer.found) << answer.text;
  EXPECT_EQ(answer.json["ranked"][0]["tensor"], 8);
}

TEST(Preference, AmongTiesTheLayoutWithLessToRunIsRecommended) {
  const Machine machine("dgx-h100", "trireme");
  const PlanAnswer answer = Answer(machine, Llama70b(), {.gpus = 64, .rows = 15, .global_batch = 512});
  const nlohmann::json& best = answer.json["recommended"];
  const double fastest = answer.json["ranked"][0]["seconds"];
  EXPECT_LE(best["seconds"].get<double>(), fastest * (1 + answer.json["tie"].get<double>()));
  for (const nlohmann::json& row : answer.json["ranked"]) {
    if (row["seconds"].get<double>() <= fastest * (1 + answer.json["tie"].get<double>()) && row["offload"] == "none" &&
        row["peak_gib"].get<double>() < 60) {
      EXPECT_EQ(best["offload"], "none") << "offloading wins nothing that a prediction can tell";
    }
  }
  EXPECT_THAT(answer.text, HasSubstr("are equally fast: within "));
}

}  // namespace
}  // namespace trireme
