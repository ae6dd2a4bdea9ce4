// What one rank trains with: its groups, memory, weights, batches and stages, made in the order in which memory is
// planned. What looks into a rank within or between steps (evaluation, a step computed again, histograms, checks of its
// state) is a function of these parts, not of the Trainer. Used by one thread.
#pragma once

#include <exception>
#include <memory>
#include <vector>

#include "comm/grid_comms.h"
#include "comm/rank_runner.h"
#include "cost/step_cost.h"
#include "run/run_config.h"
#include "train/batch_loader.h"
#include "train/pipeline_runner.h"
#include "train/zero_shard.h"

namespace trireme {

class RankParts {
 public:
  // Requires Validate(config, world size). The context outlives this. Weights are drawn afresh. Collective over the
  // world.
  RankParts(const RunConfig& config, RankContext& context);
  // Collective where ranks share a GPU, unless an exception ends this rank.
  ~RankParts();
  RankParts(const RankParts&) = delete;
  RankParts& operator=(const RankParts&) = delete;

  const RunConfig& config() const { return config_; }
  Device& device() const { return device_; }
  GridComms& comms() { return comms_; }
  Communicator& world() { return comms_.world(); }
  const Coordinate& coordinate() const { return comms_.coordinate(); }
  const StageDescription& description() const { return stage_.description(); }
  const ParameterTable& table() const { return stage_.table(); }
  ZeroShard& zero() { return *zero_; }
  BatchLoader& loader() { return *loader_; }
  PipelineRunner& runner() { return *runner_; }
  // Device memory for the exchange of a step's numbers (step_stats.h).
  const Tensor& squares() const { return squares_; }
  const Tensor& numbers() const { return numbers_; }
  // Whether this rank's losses count: every tensor rank of the last stage computes the same.
  bool SpeaksForTheHead() const { return description().HoldsHead() && coordinate().tensor == 0; }

  // Device memory outside the arena, as far as it is known: communicators and the buffers of their messages, and what
  // was planned for these.
  std::int64_t CommunicationBytes() const { return comms_.device_bytes(); }
  std::int64_t PlannedCommunicationBytes() const;
  // Law 5's two sides: what cost predicts for a step of this batch size, and what this rank has counted so far.
  StepCost Predicted(std::int64_t global_batch) const;
  StepCost Counted();
  // Memory of this rank as it is now, for observers of a step (a ledger tells the phases).
  LiveTensors Live();
  // This rank's weight slice of a table row as fp32 on the host; it must hold the row. Collective over the data group.
  std::vector<float> WeightOnHost(int row);
  bool HoldsRow(int row) const;

 private:
  // Memory of what chunks keep, by chunk.
  std::vector<KeptMemory> AllocateKept();
  // activations: where gradients may lie over them.
  std::unique_ptr<ZeroShard> MakeZeroShard(char* activations);
  std::unique_ptr<BatchLoader> MakeLoader(const StepTensors& tensors);
  PipelineRunner::Buffers AllocateBoundaries(const StepTensors& tensors);
  Tensor AllocateSlopes(const StepTensors& tensors);
  // Makes the connections that steps use, but for the pipeline's. Collective over the world.
  void ConnectGroups();
  std::vector<std::unique_ptr<Stage>> MakeStages(const std::vector<KeptMemory>& kept, const Tensor& slopes);

  RunConfig config_;
  Device& device_;
  GridComms comms_;
  StageOfRun stage_;
  Arena arena_;
  std::unique_ptr<ZeroShard> zero_;
  std::unique_ptr<BatchLoader> loader_;
  std::unique_ptr<ActivationBuffers> activation_buffers_;  // with layout.offload_activations
  std::unique_ptr<PipelineRunner> runner_;
  Tensor squares_;
  Tensor numbers_;
  const int exceptions_ = std::uncaught_exceptions();
};

}  // namespace trireme
