// Plans as JSON, under shipped clusters and stacks: what `trireme plan` answers.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "golden/golden.h"
#include "planner/fixtures.h"
#include "planner/queries/plan_answer.h"
#include "run/run_config.h"

namespace trireme::golden {
namespace {

struct PlanCase {
  std::string model;  // of models/
  std::string cluster = "dgx-h100";
  std::string stack = "trireme";
  PlanOptions options;
};

PlanCase Layout(const std::string& model, const std::string& cluster, const std::string& stack,
                const std::string& layout, int gpus, std::int64_t batch, PlanOptions options = {}) {
  options.layout = layout;
  options.layout_defaults = true;
  options.gpus = gpus;
  options.global_batch = batch;
  return {.model = model, .cluster = cluster, .stack = stack, .options = options};
}

// What the trainer's own account and prices say of one layout.
std::vector<PlanCase> OurLayouts() {
  const auto ours = [](const std::string& model, const std::string& layout, int gpus, std::int64_t batch,
                       const PlanOptions& options = {}) {
    return Layout(model, "dgx-h100", "trireme", layout, gpus, batch, options);
  };
  return {
      ours("gpt2-124m", "dp=8 mbs=4", 8, 512),
      ours("gpt2-1.5b", "dp=8 zero=1 mbs=4 recompute=light", 8, 512),
      ours("gpt2-774m", "tp=2 sp=1 dp=4 zero=2 mbs=4", 8, 512, {.dtype = "fp16"}),
      ours("llama-3-8b", "dp=64 zero=3 mbs=1 recompute=full", 64, 512),
      ours("llama-3-8b", "tp=4 sp=1 pp=2 dp=8 zero=1 recompute=selective", 64, 512),
      ours("llama-3-8b", "tp=2 sp=1 dp=32 zero=2 mbs=1 recompute=selective", 64, 512, {.moments = "bf16"}),
      ours("llama-3-8b", "tp=4 sp=1 cp=4:ring dp=4 zero=1", 64, 64),
      ours("llama-3-8b", "tp=2 sp=1 cp=4:ulysses dp=8 zero=3", 64, 64),
      ours("llama-3-8b", "tp=2 cp=8:ulysses+ring dp=4 zero=2", 64, 64),
      ours("llama-3-8b", "tp=2 sp=1 cp=4 dp=8 zero=1", 64, 64),
      ours("llama-3-70b", "tp=8 sp=1 pp=4 dp=2 zero=1 recompute=full", 64, 256),
      ours("llama-3-70b", "tp=8 sp=1 pp=8 dp=2 schedule=interleaved chunks=5", 128, 256),
      ours("llama-3-70b", "tp=8 sp=1 pp=8 dp=2 schedule=zero_bubble", 128, 256),
      ours("llama-2-13b", "tp=4 pp=5 dp=2 schedule=zero_bubble_v chunks=2", 40, 160),
      ours("gemma-2-9b", "tp=2 dp=8 zero=3 offload=optimizer", 16, 64),
      ours("qwen3-8b", "dp=16 zero=3 offload=full mbs=2", 16, 64),
      ours("mistral-7b", "dp=8 zero=2 mbs=2 offload_activations=1", 8, 64),
      ours("olmo-2-7b", "tp=2 dp=8 zero=1 mbs=2", 16, 64, {.optimizer = "muon"}),
      ours("gpt-1.3b", "tp=2 dp=4 zero=1 mbs=4", 8, 64, {.power_sgd_rank = 4}),
      ours("opt-6.7b", "dp=16 zero=3 mbs=2 shards=8 reduce=bf16 gather=int8", 16, 64),
      ours("bloom-7b1", "tp=2 dp=4 zero=1", 8, 64, {.attention = "plain"}),
  };
}

// Other programs' stacks and clusters.
std::vector<PlanCase> ForeignLayouts() {
  return {
      Layout("bloom-176b", "jean-zay-a100", "megatron-ds-2022", "tp=4 pp=12 dp=8 zero=1 mbs=2 recompute=full", 384,
             2048),
      Layout("gpt-1t", "dgx-a100", "megatron-lm-2021", "tp=8 pp=64 dp=6 mbs=1 recompute=full", 3072, 3072),
      Layout("megatron-530b", "dgx-a100", "megatron-core-2024", "tp=8 pp=35 dp=8 mbs=1 recompute=full", 2240, 1920),
      Layout("llama-3.1-405b", "dgx-h100", "torchtitan-2024", "tp=8 dp=64 zero=3 recompute=full", 512, 1024),
      Layout("llama-2-70b", "dgx-h200", "megatron-core-2024", "tp=4 sp=1 pp=4 dp=4 zero=1 recompute=selective", 64,
             512),
      Layout("mpt-7b", "mosaic-a100-40g", "llm-foundry-2023", "dp=64 zero=3 mbs=2 recompute=full", 64, 512),
      Layout("gpt3-175b", "perlmutter", "trireme", "tp=4 pp=8 dp=4 zero=1 recompute=full", 128, 512),
      Layout("llama-3.1-70b", "gb200-nvl72", "trireme", "tp=4 sp=1 dp=18 zero=1 recompute=selective", 72, 576),
      Layout("gpt2-355m", "laptop-cpu", "trireme", "dp=2", 2, 16, {.dtype = "fp32"}),
  };
}

PlanCase Ranking(const std::string& model, const std::string& cluster, PlanOptions options) {
  options.rows = 3;
  options.estimate = options.tokens > 0;
  return {.model = model, .cluster = cluster, .options = options};
}

std::vector<PlanCase> Searches() {
  return {
      Ranking("gpt2-1.5b", "dgx-a100", {.gpus = 8, .global_batch = 512}),
      Ranking("llama-3-8b", "dgx-h100", {.gpus = 32, .global_batch = 256, .tokens = 1e12, .fix = "pp=2"}),
      Ranking("llama-3-8b", "jean-zay-v100-16g", {.gpus = 64, .global_batch = 256}),
      Ranking("llama-3-8b", "dgx-h100", {.gpus = 16, .most_context = 4, .global_batch = 16, .fix = "cp=4 zero=1"}),
      Ranking("llama-2-13b", "dgx-a100-40g", {.gpus = 16, .global_batch = 64, .fix = "offload=optimizer zero=2"}),
      Ranking("gpt-18b", "dgx-a100", {.gpus = 64, .global_batch = 256, .fix = "pp=4 schedule=zero_bubble"}),
      {.model = "gpt2-774m",
       .options = {.gpus = 8, .rows = 2, .global_batch = 64, .fix = "tp=1 pp=1 mbs=1", .search_shape = "1B"}},
      {.model = "gpt2-355m", .options = {.gpus = 4, .global_batch = 4, .max_sequence = true}},
      {.model = "gpt2-355m",
       .options = {.gpus = 16,
                   .rows = 2,
                   .global_batch = 64,
                   .tokens = 1e10,
                   .fix = "tp=1 pp=1 zero=1",
                   .ramp = "16,16,1000000"}},
      {.model = "gpt2-355m",
       .options = {.global_batch = 64, .tokens = 1e9, .fix = "tp=1 pp=1 zero=1", .phases = "2:1,4:2"}},
  };
}

// A candidate without what its layout says already.
void Shorten(nlohmann::json& candidate) {
  for (const char* const key :
       {"tensor", "context", "context_kind", "pipeline", "data", "expert", "zero", "schedule", "chunks", "partition",
        "sequence_parallel", "recompute", "offload", "offload_activations", "micro_batch", "model_tflops", "mfu"}) {
    candidate.erase(key);
  }
}

// Zeros say nothing, and the first two stages and the last say what those between them are.
void Compress(nlohmann::json& value) {
  if (value.is_object()) {
    for (auto each = value.begin(); each != value.end();) {
      each = *each == 0 || *each == false || each->empty() ? value.erase(each) : std::next(each);
    }
    if (value.contains("layout") && value.contains("tensor")) {
      Shorten(value);
    }
  }
  if (value.is_structured()) {
    std::for_each(value.begin(), value.end(), Compress);
  }
}

void Tidy(nlohmann::json& answer) {
  if (answer.is_object()) {
    for (const char* const key :
         {"priced", "pruned", "enumerated", "refused", "single_changes", "warnings", "front", "mfu"}) {
      answer.erase(key);
    }
    if (nlohmann::json& stages = answer["stages"]; stages.size() > 3) {
      stages = {stages[0], stages[1], stages.back()};
    }
  }
  Compress(answer);
  RoundNumbers(answer);
}

// Members of `answer` a line each, elements of lists likewise.
std::string TextOf(const nlohmann::json& answer) {
  const nlohmann::json members = answer.is_object() ? answer : nlohmann::json{{"shapes", answer}};
  std::string text;
  for (const auto& [key, value] : members.items()) {
    text += text.empty() ? "" : ",\n";
    text += fmt::format("  \"{}\": ", key);
    if (!value.is_array() || !value.front().is_object()) {
      text += JsonText(value);
      continue;
    }
    std::string lines;
    for (const nlohmann::json& element : value) {
      lines += (lines.empty() ? "\n    " : ",\n    ") + JsonText(element);
    }
    text += "[" + lines + "]";
  }
  return "{\n" + text + "}";
}

std::string NameOf(const PlanCase& one) {
  const PlanOptions& o = one.options;
  return fmt::format("{} on {} devices of {}, {}, batch {} {}", one.model, o.gpus, one.cluster, one.stack,
                     o.global_batch, o.layout + o.fix + o.search_shape + o.phases);
}

nlohmann::json AnswerTo(const PlanCase& one) {
  PlanOptions options = one.options;
  options.threads = 1;
  const test::Machine machine(one.cluster, one.stack);
  const ModelConfig model =
      ParseRecipe(fmt::format("[model]\npreset = \"{}\"\n", one.model), "test", {}, {test::Source("models")})
          .config.model;
  const PlanAnswer answer = AnswerPlan({.cluster = machine.cluster, .stack = machine.stack, .model = model}, options);
  EXPECT_TRUE(answer.found) << NameOf(one);
  return answer.json;
}

TEST(GoldenPlans, OfModelsClustersAndStacks) {
  std::string text;
  for (const std::vector<PlanCase>& cases : {OurLayouts(), ForeignLayouts(), Searches()}) {
    for (const PlanCase& one : cases) {
      nlohmann::json answer = AnswerTo(one);
      Tidy(answer);
      text += fmt::format("{}\n \"{}\":\n  {}", text.empty() ? "{" : ",", NameOf(one), TextOf(answer));
    }
  }
  text += "\n}\n";
  EXPECT_FALSE(ParseJson(text).empty());
  ExpectGolden("plans.json", text);
}

}  // namespace
}  // namespace trireme::golden
