// Speed of the search: layouts enumerated or exactly pruned, and layouts fully priced, a second.
// Run: build/benchmarks/planner_benchmark (the targets are one million and twenty thousand on two cores).
#include <benchmark/benchmark.h>

#include "planner/pricing/step_estimate.h"
#include "planner/search/search.h"

namespace trireme {
namespace {

constexpr const char* kCluster = R"(
name = "bench"
nodes = 2048
devices_per_node = 8
[device]
name = "H100"
memory_gib = 80
memory_bandwidth_gbs = 3350
units = 132
peak_tflops = { fp32 = 67, bf16 = 989.4 }
[links.device]
latency_us = 3
bandwidth_gbs = 450
[links.node]
latency_us = 5
bandwidth_gbs = 50
cards = 8
[links.host]
latency_us = 8
bandwidth_gbs = 63
[host]
memory_gib = 2048
bandwidth_gbs = 600
)";

constexpr const char* kStack = R"(
name = "bench"
[policy]
counted_costs = true
strict_partition = true
any_schedule = true
staged_offload = true
bf16_moments = true
measured_rates = true
inline_on_host = true
[features]
zero = [0, 1, 2, 3]
schedules = ["1f1b", "interleaved", "zero_bubble"]
recompute = ["none", "light", "selective", "full"]
partitions = ["uniform", "balanced", "cost"]
sequence_parallel = true
most_chunks = 4
)";

RunConfig Bloom(std::int64_t global_batch) {
  RunConfig config;
  config.model = Completed(ModelConfig{
      .family = "bloom", .layers = 70, .hidden = 14336, .heads = 112, .vocabulary = 250880, .sequence = 2048});
  config.batch.global = global_batch;
  config.train.dtype = "bf16";
  return config;
}

void SearchSpace(benchmark::State& bench) {
  const Cluster cluster = ParseCluster(kCluster, "bench");
  const SoftwareStack stack = ParseStack(kStack, "bench");
  const StackState state = Resolve(stack, cluster, "");
  const SearchRequest request{.cluster = cluster,
                              .stack = stack,
                              .state = state,
                              .config = Bloom(4096),
                              .devices = static_cast<int>(bench.range(0))};
  std::int64_t enumerated = 0;
  std::int64_t priced = 0;
  for (auto _ : bench) {
    const SearchResult result = Search(request);
    enumerated += result.enumerated;
    priced += result.priced;
    benchmark::DoNotOptimize(result.ranked.data());
  }
  bench.counters["enumerated"] = benchmark::Counter(static_cast<double>(enumerated), benchmark::Counter::kIsRate);
  bench.counters["priced"] = benchmark::Counter(static_cast<double>(priced), benchmark::Counter::kIsRate);
}
BENCHMARK(SearchSpace)->Arg(64)->Arg(1024)->Arg(16384)->UseRealTime()->Unit(benchmark::kMillisecond);

void PriceOne(benchmark::State& bench) {
  const Cluster cluster = ParseCluster(kCluster, "bench");
  const SoftwareStack stack = ParseStack(kStack, "bench");
  const StackState state = Resolve(stack, cluster, "");
  RunConfig config = Bloom(2048);
  config.layout = {.tensor = 4,
                   .pipeline = 12,
                   .data = 8,
                   .zero = 1,
                   .partition = "balanced",
                   .recompute = Recompute::kSelective,
                   .micro_batch = static_cast<int>(bench.range(0))};
  const ModelAccount account(config.model);
  PipelineClock clock;
  const PlanPoint point{.cluster = cluster, .stack = state, .config = config};
  for (auto _ : bench) {
    benchmark::DoNotOptimize(EstimateStep(point, account, clock).seconds);
  }
  bench.counters["priced"] = benchmark::Counter(static_cast<double>(bench.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(PriceOne)->Arg(1)->Arg(2)->Arg(8);

}  // namespace
}  // namespace trireme
