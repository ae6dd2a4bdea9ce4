// A small cluster and runs on it in simulated time.
#pragma once

#include <fmt/core.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/rank_runner.h"
#include "operate/paced_prices.h"
#include "operate/training_loop.h"

namespace trireme::test {

// Two nodes of four devices, slow enough for the tests' model that devices work and hosts wait.
inline constexpr char kPacedCluster[] = R"(
name = "test-cluster"
nodes = 64
devices_per_node = 4
[device]
name = "slow chip"
memory_gib = 80
memory_bandwidth_gbs = 400
units = 1
peak_tflops = { fp32 = 1, bf16 = 4, fp8 = 8 }
[links.device]
latency_us = 3
bandwidth_gbs = 60
[links.node]
latency_us = 10
bandwidth_gbs = 12
cards = 4
[links.host]
latency_us = 10
bandwidth_gbs = 16
[host]
memory_gib = 64
bandwidth_gbs = 100
)";

// A stack as ours, in short: the figures of stacks/trireme.toml.
inline constexpr char kPacedStack[] = R"(
name = "trireme"
[policy]
counted_costs = true
strict_partition = true
any_schedule = true
staged_offload = true
[time]
wave_weight = 1
gradient_bytes = 4
parameter_bytes = 2
gradient_bytes_bf16 = 4
accumulate_bytes = 8
optimizer_bytes = 28
data_overlap = 0.7
gather_overlap = 0.8
[efficiency]
matmul = 0.72
flash = 0.58
memory = 0.85
tensor_link = 0.65
tensor_node_link = 0.6
data_device_link = 0.65
data_link = 0.6
message_link = 0.6
layer_seconds = 0.0002
step_seconds = 0.006
)";

inline RunConfig PacedConfig() {
  RunConfig config;
  config.model.family = "gpt2";
  config.model.layers = 8;
  config.model.hidden = 1024;
  config.model.heads = 16;
  config.model.vocabulary = 8192;
  config.model.sequence = 512;
  config.model = Completed(config.model);
  config.batch.global = 16;
  config.train.dtype = "bf16";
  config.train.device = "paced";
  config.train.paced_cluster = "test-cluster";
  config.train.steps = 2;
  return config;
}

struct PacedOutcome {
  std::vector<double> seconds;  // of rank 0's steps
  std::vector<std::string> accounting;
  std::vector<double> losses;
  int updates = 0;
};

inline void CompareCounts(Trainer& trainer, std::int64_t batch, std::vector<std::string>& found) {
  const StepCost predicted = trainer.parts().Predicted(batch);
  const StepCost counted = trainer.parts().Counted();
  if (!(predicted.flops == counted.flops)) {
    found.push_back(fmt::format("rank {}: FLOPs", trainer.world().rank()));
  }
  if (!(predicted.memory == counted.memory)) {
    found.push_back(fmt::format("rank {}: memory", trainer.world().rank()));
  }
}

// slow: a rank other than 0 that stands still for `pause` seconds before every step.
inline PacedOutcome RunPaced(const RunConfig& config, int slow = -1, double pause = 0) {
  Validate(config, config.layout.ranks());
  const std::unique_ptr<SampleSource> source = OpenRunSource(config, "train");
  const DeviceOptions options{
      .kind = "paced",
      .paced = PriceCluster(config, ParseCluster(kPacedCluster, "test"), ParseStack(kPacedStack, "test"))};
  PacedOutcome outcome;
  std::mutex mutex;
  RunThreadRanks(config.layout.ranks(), options, [&](RankContext& context) {
    Trainer trainer(config, context, {.train = source.get(), .validation = nullptr});
    for (int step = 0; step < 2; ++step) {
      if (context.world.rank() == slow) {
        context.device.Pause(pause);
      }
      const StepResult result = trainer.Step();
      const std::scoped_lock lock(mutex);
      if (step == 0) {
        CompareCounts(trainer, config.batch.global, outcome.accounting);
      }
      if (context.world.rank() == 0) {
        outcome.seconds.push_back(result.seconds);
        outcome.losses.push_back(result.loss);
        outcome.updates += result.skipped ? 0 : 1;
      }
    }
  });
  return outcome;
}

}  // namespace trireme::test
