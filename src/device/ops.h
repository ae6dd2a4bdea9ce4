// The operations of a training step, each defined once here and by the plain loops of device/cpu. Public functions
// check shapes and count FLOPs once for every back end; back ends implement the Do* twins. The arguments of each are
// described by subject in ops/; operations that have no products are structs there, which Run takes.
//
// Conventions. All tensors are contiguous, row-major. "activation" tensors and weights have the working type (fp32,
// bf16 or fp16); sums are taken in fp32. Gradients of parameters are fp32 and are *added to*, never overwritten.
// Statistics are fp32. N tokens = B sequences of T; C hidden, H heads, D head size, F feed-forward, V vocabulary.
#pragma once

#include <cstdint>
#include <span>

#include "base/accounting.h"
#include "ops/attention.h"
#include "ops/experts.h"
#include "ops/head_norm.h"
#include "ops/int8.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/operations.h"
#include "ops/random.h"
#include "ops/tensor.h"
#include "ops/update.h"

namespace trireme {

class Ops {
 public:
  virtual ~Ops() = default;

  // An operation of ops/operations.h. Nothing happens where the first of its tensors has no elements.
  template <template <typename> class Op>
  void Run(const Op<Tensor>& op) {
    Check(op);
    if ((op.*Op<Tensor>::Operands()[0].member).count() != 0) {
      Do(op);
    }
  }

  // t = value, fp32 and int32 tensors and the bytes of any for 0.
  void Fill(const Tensor& t, float value);
  // Copies count elements to memory that does not overlap; types may differ among the working types.
  void Copy(const Tensor& to, const Tensor& from);
  // to += from, same type or any working type to fp32; `factor` multiplies from.
  void Add(const Tensor& to, const Tensor& from, float factor = 1);
  // t *= factor.
  void Scale(const Tensor& t, float factor);
  void CopyBlocks(const BlockCopy& copy);
  // Fills an fp32 matrix with normal random numbers, the same bits on every device.
  void DrawNormal(const Tensor& to, const NormalDraw& draw);

  void Matmul(const MatmulArgs& args);
  void GroupedMatmul(const GroupedMatmulArgs& args);
  void Quantize(const QuantizeArgs& args);
  // grad_bias[c] (fp32) += sum over rows of grad_out[:, c].
  void BiasGradient(const Tensor& grad_out, const Tensor& grad_bias);

  void ResidualNormForward(const ResidualNormArgs& args);
  void NormBackward(const NormBackwardArgs& args);
  // Fills args.sums, those of this part: their sum over args.parts ranks is what HeadNormForward reads.
  void HeadNormSums(const HeadNormArgs& args);
  void HeadNormForward(const HeadNormArgs& args);
  // Computes args.products, which HeadNormBackward reads.
  void HeadNormProducts(const HeadNormArgs& args);
  void HeadNormBackward(const HeadNormArgs& args);
  // out = in with dropped elements zeroed and the others scaled; out may be in.
  void ApplyDropout(const Tensor& out, const Tensor& in, const Dropout& dropout);

  void AttentionForward(const AttentionArgs& args);
  void AttentionBackward(const AttentionArgs& args);
  void MergeAttention(const AttentionMerge& merge);
  void DecodeAttention(const DecodeAttentionArgs& args);

  void EmbeddingForward(const EmbeddingArgs& args);
  void EmbeddingBackward(const EmbeddingArgs& args);

  // Fills `own`, this rank's part of args.statistics.
  void CrossEntropyStatistics(const CrossEntropyArgs& args, const Tensor& own);
  // Fills args.losses and replaces args.logits by their gradient (padding columns get 0).
  void CrossEntropyGradient(const CrossEntropyArgs& args);
  // CrossEntropyStatistics and CrossEntropyGradient of logits with all columns, of which a device may make one pass.
  void CrossEntropy(const CrossEntropyArgs& args);
  // Fills args.losses alone, from the statistics of all parts: training's losses come with their gradient.
  void CrossEntropyEvaluation(const CrossEntropyArgs& args);
  // sums (fp32 [2]) = {sum of weights * losses, sum of weights}.
  void LossSum(const Tensor& losses, const Tensor& weights, const Tensor& sums);

  // sums[i] (fp32) = sum of squares of ranges[i] (all of one working type), summed in at least fp64 pairs; non-finite
  // values show in it.
  void SumOfSquares(std::span<const Tensor> ranges, const Tensor& sums);
  // See UpdateKind.
  void Update(std::span<const UpdateRange> ranges, const UpdateArgs& args);
  // rows[r] = sum over the part's elements of row r of (scale * value)^2, and likewise of columns; rows and columns
  // without elements in the part get 0.
  void SumSquaresByAxis(const MatrixPart& part, float scale);
  // Each value times scale, its row's number and its column's.
  void ScaleByAxis(const MatrixPart& part, float scale);
  // fp32 values into upper (bf16) and lower (uint16) halves, and back: base/split_float.h. With `high` fp16 the masters
  // lie in `low` (fp32), whole.
  void Split(const Tensor& high, const Tensor& low, const Tensor& from);
  void Join(const Tensor& to, const Tensor& high, const Tensor& low);

  // to = sum (or maximum) of `sources` in their order, each of to's type and count; sums in fp32, rounded once.
  // Sources may include to.data.
  void Reduce(const Tensor& to, std::span<const void* const> sources, bool maximum = false);

  // Blocks of 64 numbers of a working type as int8 with a scale each, in int32 words, and back: base/int8_block.h.
  void PackInt8(const Tensor& packed, const Tensor& from);
  void UnpackInt8(const Tensor& to, const Tensor& packed, const Int8Sum& sum);

  // FLOPs since construction. While recomputing is set they count as recomputed.
  const FlopCount& flops() const { return flops_; }
  // Counts the FLOPs of operations that are done without a call each: see Device::Repeat.
  void AddFlops(const FlopCount& flops) { flops_ += flops; }
  void set_recomputing(bool recomputing) { recomputing_ = recomputing; }
  // While set, FLOPs count as the optimizer's.
  void set_updating(bool updating) { updating_ = updating; }

 protected:
#define TRIREME_DO(Op) virtual void Do(const Op<Tensor>& op) = 0;
  TRIREME_OPERATIONS(TRIREME_DO)
#undef TRIREME_DO
  virtual void DoFill(const Tensor& t, float value) = 0;
  virtual void DoCopy(const Tensor& to, const Tensor& from) = 0;
  virtual void DoAdd(const Tensor& to, const Tensor& from, float factor) = 0;
  virtual void DoScale(const Tensor& t, float factor) = 0;
  virtual void DoCopyBlocks(const BlockCopy& copy) = 0;
  virtual void DoDrawNormal(const Tensor& to, const NormalDraw& draw) = 0;
  virtual void DoMatmul(const MatmulArgs& args) = 0;
  virtual void DoGroupedMatmul(const GroupedMatmulArgs& args) = 0;
  virtual void DoQuantize(const QuantizeArgs& args) = 0;
  virtual void DoPackInt8(const Tensor& packed, const Tensor& from) = 0;
  virtual void DoUnpackInt8(const Tensor& to, const Tensor& packed, const Int8Sum& sum) = 0;
  virtual void DoBiasGradient(const Tensor& grad_out, const Tensor& grad_bias) = 0;
  virtual void DoResidualNormForward(const ResidualNormArgs& args) = 0;
  virtual void DoNormBackward(const NormBackwardArgs& args) = 0;
  virtual void DoHeadNormSums(const HeadNormArgs& args) = 0;
  virtual void DoHeadNormForward(const HeadNormArgs& args) = 0;
  virtual void DoHeadNormProducts(const HeadNormArgs& args) = 0;
  virtual void DoHeadNormBackward(const HeadNormArgs& args) = 0;
  virtual void DoApplyDropout(const Tensor& out, const Tensor& in, const Dropout& dropout) = 0;
  virtual void DoAttentionForward(const AttentionArgs& args) = 0;
  virtual void DoAttentionBackward(const AttentionArgs& args) = 0;
  virtual void DoMergeAttention(const AttentionMerge& merge) = 0;
  virtual void DoDecodeAttention(const DecodeAttentionArgs& args) = 0;
  virtual void DoEmbeddingForward(const EmbeddingArgs& args) = 0;
  virtual void DoEmbeddingBackward(const EmbeddingArgs& args) = 0;
  // Cross entropy of one part of the vocabulary.
  virtual void DoCrossEntropy(const CrossEntropyArgs& args);
  virtual void DoCrossEntropyStatistics(const CrossEntropyArgs& args, const Tensor& own) = 0;
  virtual void DoCrossEntropyGradient(const CrossEntropyArgs& args) = 0;
  virtual void DoCrossEntropyEvaluation(const CrossEntropyArgs& args) = 0;
  virtual void DoLossSum(const Tensor& losses, const Tensor& weights, const Tensor& sums) = 0;
  virtual void DoSumOfSquares(std::span<const Tensor> ranges, const Tensor& sums) = 0;
  virtual void DoUpdate(std::span<const UpdateRange> ranges, const UpdateArgs& args) = 0;
  virtual void DoSumSquaresByAxis(const MatrixPart& part, float scale) = 0;
  virtual void DoScaleByAxis(const MatrixPart& part, float scale) = 0;
  virtual void DoSplit(const Tensor& high, const Tensor& low, const Tensor& from) = 0;
  virtual void DoJoin(const Tensor& to, const Tensor& high, const Tensor& low) = 0;
  virtual void DoReduce(const Tensor& to, std::span<const void* const> sources, bool maximum) = 0;

  // A product of each expert by DoMatmul, for devices that know the offsets on the host.
  void MultiplyEachGroup(const GroupedMatmulArgs& args, const std::int32_t* offsets);

 private:
  void Count(std::int64_t matmul, std::int64_t attention);

  FlopCount flops_;
  bool recomputing_ = false;
  bool updating_ = false;
};

}  // namespace trireme
