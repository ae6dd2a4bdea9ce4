// All-reduce between thread ranks: algorithm bandwidth (payload over time) and bus bandwidth (what a link would carry,
// 2 (n-1)/n of it), the two words as nccl-tests uses them.
#include <benchmark/benchmark.h>

#include <chrono>

#include "comm/rank_runner.h"

namespace trireme {
namespace {

void AllReduce(benchmark::State& state) {
  const std::int64_t count = state.range(0) * 4096;
  const int ranks = static_cast<int>(state.range(1));
  constexpr int kRepeats = 20;
  double seconds = 0;
  for (auto _ : state) {
    RunThreadRanks(ranks, {.kind = "cpu"}, [&](RankContext& context) {
      const Tensor tensor{context.device.Allocate(count * 4), DType::kFloat32, {count}};
      context.device.ops().Fill(tensor, 1);
      context.world.Barrier();
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < kRepeats; ++i) {
        context.world.AllReduce(tensor, ReduceOp::kMax);
      }
      if (context.world.rank() == 0) {
        seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / kRepeats;
      }
      context.device.Free(tensor.data);
    });
    state.SetIterationTime(seconds);
  }
  const double bytes = static_cast<double>(count) * 4;
  state.counters["algorithm B/s"] = bytes / seconds;
  state.counters["bus B/s"] = bytes / seconds * 2 * (ranks - 1) / ranks;
}
BENCHMARK(AllReduce)->ArgsProduct({{1, 64, 1024}, {2, 4, 8}})->UseManualTime();

}  // namespace
}  // namespace trireme
