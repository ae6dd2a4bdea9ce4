// The operations on the host, one source file a family. Arithmetic is in fp32 whatever the working type. Equal calls
// with equal threads give equal bits.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/cpu/matmul.h"
#include "device/cpu/scratch.h"
#include "device/ops.h"

namespace trireme {

class CpuOps final : public Ops {
 public:
  explicit CpuOps(int threads) : threads_(threads), matmul_(MakeMatmulEngine(threads)) {}

  std::string description() const { return "cpu (" + matmul_->name() + ")"; }
  // Scratch that operations keep between calls.
  std::int64_t internal_bytes() const;

 protected:
  void DoFill(const Tensor& t, float value) override;
  void DoCopy(const Tensor& to, const Tensor& from) override;
  void DoAdd(const Tensor& to, const Tensor& from, float factor) override;
  void DoScale(const Tensor& t, float factor) override;
  void DoDrawNormal(const Tensor& to, const NormalDraw& draw) override;
  void DoMatmul(const MatmulArgs& args) override;
  void DoQuantize(const QuantizeArgs& args) override;
  void DoBiasGradient(const Tensor& grad_out, const Tensor& grad_bias) override;
  void DoResidualNormForward(const ResidualNormArgs& args) override;
  void DoNormBackward(const NormBackwardArgs& args) override;
  void DoApplyDropout(const Tensor& out, const Tensor& in, const Dropout& dropout) override;
  void DoActivationForward(ActivationKind kind, const Tensor& z, const Tensor& out) override;
  void DoActivationBackward(ActivationKind kind, const Tensor& grad_out, const Tensor& z,
                            const Tensor& grad_z) override;
  void DoRotary(const RotaryArgs& args) override;
  void DoAttentionForward(const AttentionArgs& args) override;
  void DoAttentionBackward(const AttentionArgs& args) override;
  void DoDecodeAttention(const DecodeAttentionArgs& args) override;
  void DoEmbeddingForward(const EmbeddingArgs& args) override;
  void DoEmbeddingBackward(const EmbeddingArgs& args) override;
  void DoAddPositions(const PositionArgs& args) override;
  void DoPositionsBackward(const PositionArgs& args) override;
  void DoCrossEntropyStatistics(const CrossEntropyArgs& args, const Tensor& own) override;
  void DoCrossEntropyGradient(const CrossEntropyArgs& args) override;
  void DoCrossEntropyLoss(const CrossEntropyArgs& args) override;
  void DoLossSum(const Tensor& losses, const Tensor& weights, const Tensor& sums) override;
  void DoSumOfSquares(std::span<const Tensor> ranges, const Tensor& sums) override;
  void DoAdamW(std::span<const AdamWRange> ranges, const AdamWArgs& args) override;
  void DoSplit(const Tensor& high, const Tensor& low, const Tensor& from) override;
  void DoJoin(const Tensor& to, const Tensor& high, const Tensor& low) override;
  void DoReduce(const Tensor& to, std::span<const void* const> sources, bool maximum) override;

 private:
  // Cosines and sines of the last rotary embedding: [sequence, head_size / 2] each, one after the other.
  struct RotaryTable {
    std::int64_t sequence = 0;
    std::int64_t head_size = 0;
    float theta = 0;
    std::vector<float> values;
  };
  void PrepareRotary(const RotaryArgs& args);

  int threads_;
  std::unique_ptr<MatmulEngine> matmul_;
  Scratch scratch_;
  RotaryTable rotary_;
  std::vector<BFloat16> wide_a_;  // operands of an fp8 product
  std::vector<BFloat16> wide_b_;
};

}  // namespace trireme
