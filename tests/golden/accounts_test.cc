// Memory plans of whole stages and what one step asks of a rank: bytes by kind, the offsets of what a micro batch
// keeps, FLOPs and traffic. All figures are whole numbers.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "cost/step_cost.h"
#include "golden/cases.h"
#include "golden/golden.h"
#include "run/run_config.h"

namespace trireme::golden {
namespace {

struct RunCase {
  std::string name;
  std::string family = "gpt2";
  ParallelLayout layout;
  std::string dtype = "fp32";
  std::string optimizer = "adamw";
  std::int64_t head_chunk = 0;
  int powersgd_rank = 0;
  std::int64_t adapter_rank = 0;
};

RunConfig ConfigOf(const RunCase& one) {
  RunConfig config;
  config.model = SmallModel(one.family);
  config.model.layers = 4;
  config.model.adapter.rank = one.adapter_rank;
  config.model = Completed(config.model, true);
  config.layout = one.layout;
  config.batch.global = 16;
  config.train.dtype = one.dtype;
  config.train.device = "cpu";
  config.train.head_chunk = one.head_chunk;
  config.optimizer.kind = FromWord<OptimizerKind>("optimizer", one.optimizer);
  config.optimizer.powersgd_rank = one.powersgd_rank;
  return config;
}

std::vector<RunCase> RunCases() {
  std::vector<RunCase> cases;
  for (const ModelFamily& family : DenseFamilies()) {
    cases.push_back({.name = "one rank", .family = family.name});
    cases.push_back(
        {.name = "tp2 sp pp2 dp2 zero1",
         .family = family.name,
         .layout = {.tensor = 2, .pipeline = 2, .data = 2, .zero = 1, .sequence_parallel = true, .micro_batch = 2},
         .dtype = "bf16"});
  }
  for (const Recompute recompute : kRecomputes) {
    for (const int zero : {0, 1, 2, 3}) {
      cases.push_back({.name = fmt::format("dp4 zero{} {}", zero, Name(recompute)),
                       .family = zero % 2 == 0 ? "llama" : "gpt2",
                       .layout = {.data = 4, .zero = zero, .recompute = recompute, .micro_batch = 2},
                       .dtype = "bf16"});
    }
  }
  const ParallelLayout zero2{.tensor = 2, .data = 2, .zero = 2};
  const std::vector<RunCase> others = {
      {.name = "zero_bubble pp4", .family = "llama", .layout = {.pipeline = 4, .schedule = "zero_bubble"}},
      {.name = "zero_bubble_v pp2 zero3",
       .family = "llama",
       .layout = {.pipeline = 2, .data = 2, .zero = 3, .schedule = "zero_bubble_v", .chunks = 2}},
      {.name = "interleaved pp2",
       .layout = {.tensor = 2, .pipeline = 2, .schedule = "interleaved", .chunks = 2, .sequence_parallel = true}},
      {.name = "cp2 zero2", .family = "llama", .layout = {.context = 2, .data = 2, .zero = 2}, .dtype = "bf16"},
      {.name = "cp2 ring",
       .family = "qwen3",
       .layout = {.context = 2, .context_kind = ContextKind::kRing},
       .dtype = "bf16"},
      {.name = "cp2 ulysses",
       .family = "qwen2",
       .layout = {.tensor = 2, .context = 2, .context_kind = ContextKind::kUlysses}},
      {.name = "offload optimizer", .layout = {.data = 2, .zero = 2, .offload = Offload::kOptimizer}, .dtype = "bf16"},
      {.name = "offload full", .layout = {.data = 2, .zero = 3, .offload = Offload::kFull}, .dtype = "bf16"},
      {.name = "offload activations", .family = "llama", .layout = {.data = 2, .offload_activations = true}},
      {.name = "groups, sent as bf16 and int8",
       .family = "llama",
       .layout = {.data = 4,
                  .zero = 3,
                  .shard_ranks = 2,
                  .whole_below = 100,
                  .reduce = WireFormat::kBFloat16,
                  .gather = WireFormat::kInt8},
       .dtype = "bf16"},
      {.name = "fp8", .family = "llama", .layout = {.tensor = 2, .recompute = Recompute::kSelective}, .dtype = "fp8"},
      {.name = "fp16 zero2", .family = "gemma2", .layout = zero2, .dtype = "fp16"},
      {.name = "muon zero2", .family = "llama", .layout = zero2, .optimizer = "muon"},
      {.name = "adafactor zero2", .layout = zero2, .optimizer = "adafactor"},
      {.name = "powersgd", .layout = {.data = 2}, .powersgd_rank = 2},
      {.name = "head chunks of 8 tokens", .layout = {.tensor = 2, .micro_batch = 4}, .head_chunk = 8},
      {.name = "lora", .family = "llama", .layout = {.tensor = 2, .sequence_parallel = true}, .adapter_rank = 4},
  };
  cases.insert(cases.end(), others.begin(), others.end());
  return cases;
}

void AppendTraffic(const StepCost& cost, std::string& text) {
  for (int group = 0; group < kGroupKinds; ++group) {
    const auto kind_of_group = static_cast<GroupKind>(group);
    for (std::size_t kind = 0; kind < kCollectiveKinds; ++kind) {
      const Traffic& traffic = cost[kind_of_group];
      if (traffic.calls[kind] > 0) {
        text += fmt::format("  {} {}: {} calls, {} bytes\n", Name(kind_of_group),
                            Name(static_cast<CollectiveKind>(kind)), traffic.calls[kind], traffic.bytes[kind]);
      }
    }
  }
}

std::string TextOfStage(const RunConfig& config, int pipeline) {
  const StageOfRun run(config, pipeline, config.batch.global);
  const StageDescription& stage = run.description();
  const StepCost cost = CostOfStep(stage, 0);
  std::string text = fmt::format("stage {}:", pipeline);
  for (int kind = 0; kind < kMemoryKinds; ++kind) {
    const auto memory = static_cast<MemoryKind>(kind);
    text += cost.memory[memory] > 0 ? fmt::format(" {} {}", Name(memory), cost.memory[memory]) : "";
  }
  text += fmt::format("\n  scratch of a module {}; FLOPs: matmul {} attention {} recomputed {} update {}\n",
                      ScratchBytes(stage), cost.flops.matmul, cost.flops.attention, cost.flops.recomputed,
                      cost.flops.update);
  for (int chunk = 0; chunk < config.layout.chunks; ++chunk) {
    const KeptPlaces places = PlacesOfKept(stage, chunk);
    text += fmt::format("  chunk {}: modules keep {}; device {} host {} weight copies {}\n", chunk,
                        fmt::join(KeptOfModules(stage, chunk), " "), places.device, places.host,
                        WeightCopyBytes(stage, chunk));
  }
  AppendTraffic(cost, text);
  return text;
}

TEST(GoldenAccounts, OfEveryFamilyAndLayout) {
  std::string text;
  for (const RunCase& one : RunCases()) {
    const RunConfig config = ConfigOf(one);
    Validate(config, 0);
    text += fmt::format("# {} {} {}\n", one.family, one.name, one.dtype);
    for (int pipeline = 0; pipeline < config.layout.pipeline; ++pipeline) {
      text += TextOfStage(config, pipeline);
    }
  }
  ExpectGolden("accounts.txt", text);
}

}  // namespace
}  // namespace trireme::golden
