// What `trireme model` prints is what training is planned by.
#include "planner/queries/model_listing.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cost/step_cost.h"
#include "model/families.h"

namespace trireme {
namespace {

RunConfig ConfigOf(const std::string& family, const ParallelLayout& layout) {
  RunConfig config;
  config.model.family = family;
  config.model.layers = 4;
  config.model.hidden = 64;
  config.model.heads = 4;
  config.model.vocabulary = 90;
  config.model.sequence = 16;
  config.model = Completed(config.model, true);
  config.layout = layout;
  config.batch.global = 16;
  config.train.head_chunk = 5;
  return config;
}

const ListedModule& ModuleOf(const ModelListing& listing, const std::string& kind) {
  return *std::find_if(listing.modules.begin(), listing.modules.end(),
                       [&](const ListedModule& module) { return module.kind == kind; });
}

TEST(ModelListing, AddsUpToWhatTheStagesAreCountedWith) {
  const std::vector<ParallelLayout> layouts = {
      {.micro_batch = 2},
      {.tensor = 2, .pipeline = 2, .sequence_parallel = true, .recompute = Recompute::kFull, .micro_batch = 2},
      {.context = 2, .recompute = Recompute::kSelective},
      {.pipeline = 2, .schedule = "zero_bubble", .recompute = Recompute::kLight}};
  for (const ModelFamily& family : ModelFamilies()) {
    for (const ParallelLayout& layout : layouts) {
      const RunConfig config = ConfigOf(family.name, layout);
      Validate(config, 0);
      const ModelListing listing = ListModel(config);
      FlopCount flops;
      std::int64_t sent = 0;
      std::int64_t kept = 0;
      for (int pipeline = 0; pipeline < layout.pipeline; ++pipeline) {
        const StageOfRun stage(config, pipeline, config.batch.global);
        const ModuleCost cost = CostOfVirtualStage(stage.description(), 0);
        for (const WorkCost& work : {cost.forward, cost.backward_input, cost.backward_weight}) {
          flops += work.flops;
          for (const Traffic& traffic : {work.tensor, work.context}) {
            for (const std::int64_t bytes : traffic.bytes) {
              sent += bytes;
            }
          }
        }
        kept += KeptBytes(stage.description(), 0);
      }
      SCOPED_TRACE(fmt::format("{}, tensor {}, context {}", family.name, layout.tensor, layout.context));
      EXPECT_EQ(listing.flops, flops.matmul + flops.attention);
      EXPECT_EQ(listing.recomputed_flops, flops.recomputed);
      EXPECT_EQ(listing.sent, sent);
      EXPECT_EQ(listing.kept_bytes, kept);
      if (layout.tensor == 1) {
        std::int64_t parameters = 0;
        const ParameterTable table(config.model);
        for (const Parameter& parameter : table.rows()) {
          parameters += LocalShape(parameter, 1).count();
        }
        EXPECT_EQ(listing.parameters, parameters);
      }
    }
  }
}

TEST(ModelListing, ListsBlocksThatAreAlikeOnce) {
  RunConfig config = ConfigOf("llama", {.recompute = Recompute::kFull, .recompute_layers = 1});
  const ModelListing listing = ListModel(config);
  ASSERT_EQ(listing.modules.size(), 4U) << "embedding, a block that recomputes, three that do not, head";
  EXPECT_EQ(listing.modules[1].count, 1);
  EXPECT_EQ(listing.modules[2].first, 2);
  EXPECT_EQ(listing.modules[2].count, 3);
  EXPECT_GT(listing.recomputed_flops, 0);
}

TEST(ModelListing, NamesStepsOperandsAndParameters) {
  const RunConfig config = ConfigOf("gpt2", {.micro_batch = 2});
  const ModelListing listing = ListModel(config);
  const ListedStep& lookup = ModuleOf(listing, "embedding").parts.front().steps.front();
  EXPECT_EQ(lookup.name, "lookup");
  ASSERT_EQ(lookup.operands.size(), 3U);
  EXPECT_EQ(lookup.operands[1].of, "embedding.token");
  EXPECT_EQ(lookup.operands[1].shape, (Shape{96, 64})) << "a vocabulary of 90, padded";
  EXPECT_EQ(lookup.operands[2].shape, (Shape{32, 64}));
  const ListedStep& norm = ModuleOf(listing, "block").parts.front().steps.front();
  EXPECT_EQ(norm.operands.back().of, "attention.norm.bias") << "without the block's number";
  const std::vector<ListedStep>& head = ModuleOf(listing, "head").parts.front().steps;
  EXPECT_EQ(head[1].flops, 2 * 32 * 96 * 64);
  EXPECT_TRUE(head[1].chunked);
  // The head reads its matrix once for each of 7 chunks of 5 tokens, the last of 2.
  EXPECT_EQ(head[1].bytes, 4 * (32 * 64 + 7 * 96 * 64 + 7 * 5 * 96));
}

TEST(ModelListing, TextAndJsonHaveEveryStep) {
  const RunConfig config = ConfigOf("llama", {.tensor = 2, .micro_batch = 2});
  const ModelListing listing = ListModel(config);
  const std::string text = ToText(listing, config);
  for (const char* part : {"embedding: ", "blocks 0 to 3: ", "head: ", "lookup: ", "attention_backward: ",
                           "cross_entropy (in chunks): ", "Total: "}) {
    EXPECT_THAT(text, testing::HasSubstr(part));
  }
  const nlohmann::json json = ToJsonValue(listing, config);
  std::size_t steps = 0;
  for (const ListedModule& module : listing.modules) {
    for (const ListedPart& part : module.parts) {
      steps += part.steps.size();
    }
  }
  std::size_t found = 0;
  for (const auto& module : json["modules"]) {
    for (const auto& part : module["parts"]) {
      found += part.size();
    }
  }
  EXPECT_EQ(found, steps);
  EXPECT_EQ(json["totals"]["flops"], listing.flops);
  EXPECT_GT(json["totals"]["sent_bytes"], 0);
}

}  // namespace
}  // namespace trireme
