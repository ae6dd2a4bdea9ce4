// Training steps of ranks that share the simulated GPU, each rank a thread with streams of its own: losses, gradients
// and parameters are those of the same ranks on the CPU, and no wait is missing.
#include <gtest/gtest.h>

#include <cstdlib>

#include "parity/parity.h"

namespace trireme::cuda_on_cpu {
namespace {

struct Layout {
  const char* name;
  const char* family;
  ParallelLayout layout;
  std::string schedule = "1f1b";
  ExpertsConfig experts = {};
};

class Training : public testing::TestWithParam<Layout> {
 protected:
  ~Training() override { unsetenv("TRIREME_TEST_DEVICE"); }
};

// The second step records work and runs it.
constexpr int kSteps = 2;

parity::Outcome TrainOn(const char* device, const RunConfig& config) {
  setenv("TRIREME_TEST_DEVICE", device, 1);
  return parity::Train({.config = config, .steps = kSteps});
}

TEST_P(Training, AgreesWithTheCpu) {
  RunConfig config = parity::SmallRun(GetParam().family);
  config.model.layers = 2;
  config.model.heads = 4;
  config.model.kv_heads = 4;
  config.batch.global = 4;
  config.train.steps = kSteps;
  config.layout = GetParam().layout;
  config.layout.schedule = GetParam().schedule;
  config.model.experts = GetParam().experts;
  config.model = Completed(config.model, true);
  parity::ExpectSame(TrainOn("cpu", config), TrainOn("cuda", config), 1e-5);
}

const ExpertsConfig kFourExperts{
    .count = 4, .chosen = 2, .ffn = 24, .shared_ffn = 12, .shared_gate = true, .balance_loss = 0.05, .z_loss = 1e-3};

INSTANTIATE_TEST_SUITE_P(
    Layouts, Training,
    testing::Values(Layout{"OneRank", "gpt2", {}},
                    Layout{"SequenceParallel", "llama", {.tensor = 2, .sequence_parallel = true}},
                    Layout{"Pipeline", "gpt2", {.pipeline = 2}, "zero_bubble"},
                    Layout{"ShardedData", "llama", {.data = 2, .zero = 3}},
                    Layout{"OffloadedData", "gpt2", {.data = 2, .zero = 1, .offload = Offload::kFull}},
                    Layout{"RingContext", "llama", {.context = 2, .context_kind = ContextKind::kRing}},
                    Layout{"AllAxes", "gpt2", {.tensor = 2, .pipeline = 2, .data = 2, .zero = 2}},
                    Layout{"Experts", "llama", {.recompute = Recompute::kFull}, "1f1b", kFourExperts},
                    Layout{"ShardedExperts", "llama", {.tensor = 2, .data = 2, .zero = 1}, "1f1b", kFourExperts}),
    [](const auto& layout) { return std::string(layout.param.name); });

}  // namespace
}  // namespace trireme::cuda_on_cpu
