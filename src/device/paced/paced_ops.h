// Operations that take time and compute nothing. Element-wise ones take the time in which their tensors pass through
// the device's memory once; tensors in host memory pass over the link. Only the sums of a loss are written: 0 and the
// number of tokens.
#pragma once

#include <initializer_list>
#include <map>

#include "device/ops.h"
#include "device/paced/paced_clock.h"
#include "device/paced/paced_cluster.h"

namespace trireme {

class PacedOps final : public Ops {
 public:
  // All outlive this. on_host: bytes of each block of host memory, by its beginning.
  PacedOps(PacedClock& clock, const PacedCluster& cluster, const std::map<const char*, std::int64_t>& on_host)
      : clock_(clock), cluster_(cluster), on_host_(on_host) {}

 protected:
#define TRIREME_DO(Op) \
  void Do(const Op<Tensor>& op) override { Move(op); }
  TRIREME_OPERATIONS(TRIREME_DO)
#undef TRIREME_DO
  void DoFill(const Tensor& t, float value) override;
  void DoCopy(const Tensor& to, const Tensor& from) override;
  void DoAdd(const Tensor& to, const Tensor& from, float factor) override;
  void DoScale(const Tensor& t, float factor) override;
  void DoCopyBlocks(const BlockCopy& copy) override;
  void DoDrawNormal(const Tensor& to, const NormalDraw& draw) override;
  void DoMatmul(const MatmulArgs& args) override;
  void DoGroupedMatmul(const GroupedMatmulArgs& args) override;
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

 private:
  // Read or written once.
  struct Touched {
    double device = 0;  // bytes
    double host = 0;
  };
  void Add(Touched& touched, const Tensor& tensor, double times = 1) const;
  void Move(std::initializer_list<Tensor> tensors);
  void Move(const Touched& touched);
  template <template <typename> class Op>
  void Move(const Op<Tensor>& op) {
    Touched touched;
    for (const auto& use : Op<Tensor>::Operands()) {
      Add(touched, op.*use.member, use.passes);
    }
    Move(touched);
  }
  void Run(double seconds) { clock_.Operate(cluster_.issue(), seconds); }

  PacedClock& clock_;
  const PacedCluster& cluster_;
  const std::map<const char*, std::int64_t>& on_host_;
};

}  // namespace trireme
