// Simulated seconds of paced runs: they show what waits for what. A reduction or gather that is bound earlier or later
// than now changes them, where losses and traffic stay what they are.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "golden/golden.h"
#include "operate/paced_bench.h"

namespace trireme::golden {
namespace {

struct PacedCase {
  std::string family = "gpt2";
  ParallelLayout layout;
  std::string optimizer = "adamw";
};

// Traffic takes about as long as compute: batches are small and the network is slow.
RunConfig ConfigOf(const PacedCase& one) {
  RunConfig config = test::PacedConfig();
  config.model.family = one.family;
  config.model.kv_heads = 0;
  config.model = Completed(config.model);
  config.layout = one.layout;
  config.optimizer.kind = FromWord<OptimizerKind>("optimizer", one.optimizer);
  config.batch.global = std::int64_t{4} * one.layout.data * one.layout.micro_batch;
  return config;
}

std::vector<PacedCase> PacedCases() {
  std::vector<PacedCase> cases;
  for (const int zero : {0, 1, 2, 3}) {
    cases.push_back({.layout = {.data = 4, .zero = zero}});
    cases.push_back({.family = "llama", .layout = {.tensor = 2, .data = 4, .zero = zero, .sequence_parallel = true}});
  }
  for (const int zero : {2, 3}) {
    cases.push_back({.layout = {.pipeline = 2, .data = 2, .zero = zero}});
    cases.push_back({.layout = {.pipeline = 2, .data = 2, .zero = zero, .schedule = "zero_bubble"}});
    cases.push_back({.layout = {.data = 4, .zero = zero, .recompute = Recompute::kFull, .shard_ranks = 2}});
    cases.push_back(
        {.family = "llama",
         .layout = {.data = 4, .zero = zero, .reduce = WireFormat::kBFloat16, .offload_activations = true}});
    cases.push_back({.layout = {.data = 2, .zero = zero, .offload = Offload::kOptimizer}});
    cases.push_back({.family = "llama", .layout = {.tensor = 2, .data = 2, .zero = zero}, .optimizer = "muon"});
  }
  for (const ContextKind kind :
       {ContextKind::kRing, ContextKind::kAllGather, ContextKind::kUlysses, ContextKind::kUlyssesRing}) {
    cases.push_back({.family = "llama", .layout = {.context = 4, .context_kind = kind}});
    cases.push_back({.layout = {.tensor = 2,
                                .context = 4,
                                .zero = 2,
                                .sequence_parallel = true,
                                .recompute = Recompute::kSelective,
                                .context_kind = kind}});
  }
  cases.push_back({.family = "llama",
                   .layout = {.context = 4,
                              .pipeline = 2,
                              .data = 2,
                              .zero = 3,
                              .context_kind = ContextKind::kRing,
                              .context_stripes = 2}});
  return cases;
}

TEST(GoldenPacedRuns, OfZeroAndContextParallelism) {
  std::string text;
  for (const PacedCase& one : PacedCases()) {
    const test::PacedOutcome outcome = test::RunPaced(ConfigOf(one));
    std::vector<std::string> seconds;
    for (const double step : outcome.seconds) {
      seconds.push_back(Rounded(step));
    }
    text += fmt::format("# {} {} {}\n{}\n", one.family, one.optimizer, one.layout.ToString(), fmt::join(seconds, " "));
  }
  ExpectGolden("paced_seconds.txt", text);
}

}  // namespace
}  // namespace trireme::golden
