// Whole training steps of a small model on thread ranks: tokens a second under several layouts.
#include <benchmark/benchmark.h>

#include <chrono>

#include "operate/training_loop.h"

namespace trireme {
namespace {

RunConfig StepConfig(std::int64_t width, const ParallelLayout& layout) {
  RunConfig config;
  config.model = {.layers = 4, .hidden = 64 * width, .heads = 4, .vocabulary = 256, .sequence = 128};
  config.model = Completed(config.model);
  config.layout = layout;
  config.batch.global = 8;
  config.train.device = "cpu";
  config.train.steps = 1000;
  return config;
}

void Step(benchmark::State& state) {
  static const std::vector<ParallelLayout> kLayouts = {
      {}, {.tensor = 2}, {.data = 2, .zero = 1}, {.pipeline = 2}, {.tensor = 2, .pipeline = 2, .data = 2, .zero = 1}};
  const RunConfig config = StepConfig(state.range(0), kLayouts[static_cast<std::size_t>(state.range(1))]);
  state.SetLabel(config.layout.ToString());
  Validate(config, config.layout.ranks());
  const auto source = OpenRunSource(config, "train");
  constexpr int kSteps = 3;
  double seconds = 0;
  for (auto _ : state) {
    RunThreadRanks(config.layout.ranks(), {.kind = "cpu"}, [&](RankContext& context) {
      Trainer trainer(config, context, {.train = source.get()});
      trainer.Step();
      double own = 0;
      for (int i = 0; i < kSteps; ++i) {
        own += trainer.Step().seconds;
      }
      if (context.world.rank() == 0) {
        seconds = own / kSteps;
      }
    });
    state.SetIterationTime(seconds);
  }
  state.counters["tokens/s"] = static_cast<double>(config.batch.global * config.model.sequence) / seconds;
}
BENCHMARK(Step)->ArgsProduct({{1, 4}, {0, 1, 2, 3, 4}})->UseManualTime();

}  // namespace
}  // namespace trireme
