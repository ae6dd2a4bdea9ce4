// CpuOps of one instruction level: every operation of HostOps, one source file a subject. Arithmetic is in fp32
// whatever the working type. Equal calls with equal threads give equal bits at one level. Compiled once per level:
// Highway's guard instead of #pragma once.
#include <span>

#include "device/cpu/cpu_ops.h"

#if defined(TRIREME_CPU_OPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_CPU_OPS_INL_H_
#undef TRIREME_CPU_OPS_INL_H_
#else
#define TRIREME_CPU_OPS_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

class CpuOps final : public HostOps {
 public:
  using HostOps::HostOps;

 protected:
#define TRIREME_DO(Op) void Do(const Op<Tensor>& op) override;
  TRIREME_OPERATIONS(TRIREME_DO)
#undef TRIREME_DO
  void DoFill(const Tensor& t, float value) override;
  void DoCopy(const Tensor& to, const Tensor& from) override;
  void DoAdd(const Tensor& to, const Tensor& from, float factor) override;
  void DoScale(const Tensor& t, float factor) override;
  void DoCopyBlocks(const BlockCopy& copy) override;
  void DoDrawNormal(const Tensor& to, const NormalDraw& draw) override;
  void DoMatmul(const MatmulArgs& args) override;
  void DoGroupedMatmul(const GroupedMatmulArgs& args) override {
    MultiplyEachGroup(args, args.offsets.as<std::int32_t>());
  }
  void DoQuantize(const QuantizeArgs& args) override;
  void DoPackInt8(const Tensor& packed, const Tensor& from) override;
  void DoUnpackInt8(const Tensor& to, const Tensor& packed, const Int8Sum& sum) override;
  void DoBiasGradient(const Tensor& grad_out, const Tensor& grad_bias) override;
  void DoResidualNormForward(const ResidualNormArgs& args) override;
  void DoNormBackward(const NormBackwardArgs& args) override;
  void DoHeadNormSums(const HeadNormArgs& args) override;
  void DoHeadNormForward(const HeadNormArgs& args) override;
  void DoHeadNormProducts(const HeadNormArgs& args) override;
  void DoHeadNormBackward(const HeadNormArgs& args) override;
  void DoApplyDropout(const Tensor& out, const Tensor& in, const Dropout& dropout) override;
  void DoAttentionForward(const AttentionArgs& args) override;
  void DoAttentionBackward(const AttentionArgs& args) override;
  void DoMergeAttention(const AttentionMerge& merge) override;
  void DoDecodeAttention(const DecodeAttentionArgs& args) override;
  void DoEmbeddingForward(const EmbeddingArgs& args) override;
  void DoEmbeddingBackward(const EmbeddingArgs& args) override;
  void DoCrossEntropyStatistics(const CrossEntropyArgs& args, const Tensor& own) override;
  void DoCrossEntropyGradient(const CrossEntropyArgs& args) override;
  void DoCrossEntropyEvaluation(const CrossEntropyArgs& args) override;
  void DoLossSum(const Tensor& losses, const Tensor& weights, const Tensor& sums) override;
  void DoSumOfSquares(std::span<const Tensor> ranges, const Tensor& sums) override;
  void DoUpdate(std::span<const UpdateRange> ranges, const UpdateArgs& args) override;
  void DoSumSquaresByAxis(const MatrixPart& part, float scale) override;
  void DoScaleByAxis(const MatrixPart& part, float scale) override;
  void DoSplit(const Tensor& high, const Tensor& low, const Tensor& from) override;
  void DoJoin(const Tensor& to, const Tensor& high, const Tensor& low) override;
  void DoReduce(const Tensor& to, std::span<const void* const> sources, bool maximum) override;
};

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
