// The operations on a GPU. Each file of this folder implements those of the file of the same name in device/cpu.
// Everything is put on the context's stream and returns at once; nothing is allocated once every shape of a step has
// been seen.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "device/cuda/cuda_context.h"
#include "device/ops.h"

namespace trireme {

class CublasLtMatmul;
class CudnnAttention;
class UnfusedAttention;

class CudaOps final : public Ops {
 public:
  // `context` must outlive the operations.
  explicit CudaOps(CudaContext& context);
  ~CudaOps() override;

  CublasLtMatmul& matmul() { return *matmul_; }
  const CublasLtMatmul& matmul() const { return *matmul_; }

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
  void DoCrossEntropy(const CrossEntropyArgs& args) override;
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
  CudaContext& context_;
  CudaTables square_tables_;
  CudaTables rotary_tables_;
  std::unique_ptr<CublasLtMatmul> matmul_;
  std::unique_ptr<CudnnAttention> attention_;
  std::unique_ptr<UnfusedAttention> unfused_;
};

// After a product whose epilogue the library lacks: adds the bias of `args` to c, or multiplies c by gelu's slope at
// the auxiliary tensor, or adds that. Not for Epilogue::kGelu.
void FinishProduct(const CudaContext& context, const MatmulArgs& args);

// Sums of the columns of `partial` (fp32 [rows, columns]), added to `first` (its first columns) and `second` (those
// from `split` on); either may be null. Always in the same order.
struct ColumnSums {
  const float* partial = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t split = 0;
  float* first = nullptr;
  float* second = nullptr;
};
void AddColumnSums(const CudaContext& context, const ColumnSums& sums);

// Attention by plain kernels: any working type, head sizes up to 256, document starts, up to 256 chunks of keys.
namespace plain_attention {
void Forward(CudaContext& context, const AttentionArgs& args);
void Backward(CudaContext& context, const AttentionArgs& args);
}  // namespace plain_attention

// to[b, h, t] = from[b, h, t] + factor * slopes[h] * t, over the statistics of `args`.
void ShiftStatistics(const CudaContext& context, const AttentionArgs& args, float factor, const float* from, float* to);

}  // namespace trireme
