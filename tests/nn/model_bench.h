// A whole small model on one rank without trainer, ZeRO or pipeline: parameters and their gradients are plain vectors,
// and forward and backward of a batch are one call each. For comparing with finite differences and with PyTorch.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/rank_runner.h"
#include "cost/step_cost.h"
#include "nn/stage.h"
#include "run/run_config.h"

namespace trireme {

struct HostBatch {
  std::vector<std::int32_t> tokens;           // B * T
  std::vector<std::int32_t> targets;          // B * T
  std::vector<float> weights;                 // B * T
  std::vector<std::int32_t> document_starts;  // B * T, or none
};

// Uniform tokens and targets, and weights of 1, from `seed`.
HostBatch RandomBatch(const RunConfig& config, std::uint64_t seed);

class ModelBench : public ParameterSource, public GradientSink {
 public:
  // The layout must be of one rank; a micro batch is the whole batch. Weights are drawn with a deviation of 0.2 (tables
  // 0.7, since norms of small rows curve) around their initial mean, so that no term of a gradient is small. The
  // context outlives the bench.
  ModelBench(const RunConfig& config, RankContext& context);

  // Mean loss over the weights; the sum is taken in double.
  double Loss(const HostBatch& batch);
  // The mean loss; leaves its gradients.
  double Gradients(const HostBatch& batch);

  // Blocks and head then overwrite the gradients of their matrices, which are NaN before.
  void set_overwrites() { overwrites_ = true; }
  std::vector<float>& weight(int row) { return weights_[static_cast<std::size_t>(row)]; }
  const std::vector<float>& gradient(int row) const { return gradients_[static_cast<std::size_t>(row)]; }
  const ParameterTable& table() const { return stage_.table(); }
  // For modules that a test makes by itself.
  ModuleContext& modules() { return *modules_; }
  const StageDescription& description() const { return stage_.description(); }
  // Views of a batch, which must outlive their use.
  MicroBatch View(const HostBatch& batch, bool training);
  void ClearGradients();

  void Gather(const ParameterUse&) override {}
  Tensor Get(int row) override { return View(weights_, row); }
  void Release(const ParameterUse&) override {}
  std::int64_t Version(int) const override { return 0; }
  void Open(const ParameterUse&) override {}
  Tensor Gradient(int row) override { return View(gradients_, row); }
  bool Untouched(int /*row*/, bool first) const override { return first && overwrites_; }
  void Finish(const ParameterUse&, bool) override {}

 private:
  Tensor View(std::vector<std::vector<float>>& rows, int row);
  Tensor Buffer(DType dtype, const Shape& shape);

  RunConfig config_;
  StageOfRun stage_;
  std::vector<std::vector<float>> weights_;
  std::vector<std::vector<float>> gradients_;
  std::vector<std::unique_ptr<char[]>> memory_;
  std::vector<float> losses_;
  float loss_sums_[2] = {};
  bool overwrites_ = false;
  std::vector<float> slopes_;
  std::unique_ptr<ModuleContext> modules_;
  std::unique_ptr<Stage> whole_;
  Tensor output_;
  Tensor spare_a_;
  Tensor spare_b_;
};

// A one-rank run of a tiny model of a family: 2 layers, 16 wide, 4 heads, 29 tokens, 3 sequences of 6.
RunConfig OneRankRun(const std::string& family);
// Calls `body` as the one rank of a world.
void OnOneRank(const std::function<void(RankContext&)>& body);

// The derivative of `loss` along some directions of `values` against `gradient`: one of the gradient itself, the others
// random. A fourth-order central difference with a step of `step` along a unit vector.
//
// Tolerance. loss() is made of fp32 numbers and has a relative error of some 2e-7; divided by the step that is 3e-5 for
// losses around 3. The formula's own error is step^4 / 30 of the fifth derivative: 5e-9 of derivatives of order one,
// and below 1e-4 of those that norms of small rows give. A gradient in fp32 has an error of some 1e-6 of its norm. So
// differences stay below 1e-3 of the norm plus 1e-4; a wrong sign or scale of one element in a hundred exceeds that.
struct DirectionCheck {
  std::string name;
  std::vector<float>& values;
  std::vector<float> gradient;
  std::function<double()> loss;
  double step = 0.02;
  double relative = 1e-3;  // of the gradient's norm
  double absolute = 1e-4;
  int random_directions = 3;
};
void ExpectDirections(const DirectionCheck& check);

}  // namespace trireme
