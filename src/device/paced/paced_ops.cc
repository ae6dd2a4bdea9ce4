#include "device/paced/paced_ops.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>

#include "base/shape.h"

namespace trireme {

void PacedOps::Add(Touched& touched, const Tensor& tensor, double times) const {
  if (!tensor.given()) {
    return;
  }
  const auto* const data = static_cast<const char*>(tensor.data);
  auto block = on_host_.upper_bound(data);
  const bool host = block != on_host_.begin() && data < (--block)->first + block->second;
  (host ? touched.host : touched.device) += times * static_cast<double>(tensor.bytes());
}

void PacedOps::Move(std::initializer_list<Tensor> tensors) {
  Touched touched;
  for (const Tensor& tensor : tensors) {
    Add(touched, tensor);
  }
  Move(touched);
}

void PacedOps::Move(const Touched& touched) {
  const double host = touched.host > 0 ? cluster_.HostLink(touched.host) : 0;
  Run(std::max(cluster_.DeviceMemory(touched.device), host));
}

void PacedOps::DoFill(const Tensor& t, float /*value*/) { Move({t}); }
void PacedOps::DoCopy(const Tensor& to, const Tensor& from) { Move({to, from}); }
void PacedOps::DoAdd(const Tensor& to, const Tensor& from, float /*factor*/) { Move({to, to, from}); }
void PacedOps::DoScale(const Tensor& t, float /*factor*/) { Move({t, t}); }
void PacedOps::DoDrawNormal(const Tensor& to, const NormalDraw& /*draw*/) { Move({to}); }

void PacedOps::DoCopyBlocks(const BlockCopy& copy) {
  const Shape moved{copy.rows * copy.columns};
  Move({copy.to.Reshaped(moved), copy.from.Reshaped(moved)});
}

void PacedOps::DoMatmul(const MatmulArgs& args) {
  PacedProduct product{.m = args.c.shape[0],
                       .n = args.c.shape[1],
                       .k = args.a.shape[args.transpose_a ? 0 : 1],
                       .operands = args.a.dtype};
  // Gradients of weights are summed in fp32; the first of a step only writes.
  const bool sums = args.transpose_a || args.accumulate;
  product.summed_bytes = sums ? (args.accumulate ? 2.0 : 1.0) * static_cast<double>(args.c.bytes()) : 0;
  Run(cluster_.Product(product));
  if (args.epilogue == Epilogue::kResidual) {
    Move({args.auxiliary});
  }
}

// Experts have equally many rows: what the router would choose is not known.
void PacedOps::DoGroupedMatmul(const GroupedMatmulArgs& args) {
  const Shape& matrices = MatricesOf(args).shape;
  const std::int64_t experts = matrices[0];
  const std::int64_t rows = CeilDiv(args.a.shape[0], experts);
  PacedProduct product{.operands = args.a.dtype};
  switch (args.product) {
    case GroupedProduct::kForward:
      std::tie(product.m, product.n, product.k) = std::tuple(rows, matrices[1], matrices[2]);
      break;
    case GroupedProduct::kInputGradient:
      std::tie(product.m, product.n, product.k) = std::tuple(rows, matrices[2], matrices[1]);
      break;
    case GroupedProduct::kWeightGradient:
      std::tie(product.m, product.n, product.k) = std::tuple(matrices[1], matrices[2], rows);
      product.summed_bytes =
          (args.accumulate ? 2.0 : 1.0) * static_cast<double>(args.c.bytes()) / static_cast<double>(experts);
      break;
  }
  Run(static_cast<double>(experts) * cluster_.Product(product));
}

void PacedOps::DoQuantize(const QuantizeArgs& args) { Move({args.from, args.rows, args.columns, args.column_sums}); }

void PacedOps::DoBiasGradient(const Tensor& grad_out, const Tensor& grad_bias) { Move({grad_out, grad_bias}); }

void PacedOps::DoResidualNormForward(const ResidualNormArgs& args) {
  Move({args.x, args.branch, args.branch.given() ? args.sum : Tensor{}, args.normed, args.statistics});
}

void PacedOps::DoNormBackward(const NormBackwardArgs& args) {
  Move({args.grad_normed, args.x, args.statistics, args.grad_residual, args.grad_x, args.normed});
}

void PacedOps::DoHeadNormSums(const HeadNormArgs& args) { Move({args.sums}); }
void PacedOps::DoHeadNormForward(const HeadNormArgs& args) { Move({args.x, args.sums, args.out}); }
void PacedOps::DoHeadNormProducts(const HeadNormArgs& args) { Move({args.products}); }
void PacedOps::DoHeadNormBackward(const HeadNormArgs& args) { Move({args.x, args.sums, args.grad_out, args.grad_x}); }

void PacedOps::DoApplyDropout(const Tensor& out, const Tensor& in, const Dropout& /*dropout*/) { Move({out, in}); }

void PacedOps::DoAttentionForward(const AttentionArgs& args) {
  Run(cluster_.Attention(static_cast<double>(AttentionForwardFlops(args)), args.head_size));
}

void PacedOps::DoAttentionBackward(const AttentionArgs& args) {
  Run(cluster_.Attention(2.5 * static_cast<double>(AttentionForwardFlops(args)), args.head_size));
}

void PacedOps::DoMergeAttention(const AttentionMerge& merge) { Move({merge.out, merge.out, merge.part_out}); }

void PacedOps::DoDecodeAttention(const DecodeAttentionArgs& args) {
  Move({args.qkv, args.keys, args.values, args.out});
}

void PacedOps::DoEmbeddingForward(const EmbeddingArgs& args) { Move({args.out, args.out}); }
void PacedOps::DoEmbeddingBackward(const EmbeddingArgs& args) {
  Touched touched;
  Add(touched, args.grad_out);
  // Rows of fp32 gradients are read and written.
  touched.device += 8 * static_cast<double>(args.grad_out.count());
  Move(touched);
}
void PacedOps::DoCrossEntropyStatistics(const CrossEntropyArgs& args, const Tensor& own) { Move({args.logits, own}); }
void PacedOps::DoCrossEntropyGradient(const CrossEntropyArgs& args) { Move({args.logits, args.logits}); }
void PacedOps::DoCrossEntropyEvaluation(const CrossEntropyArgs& args) { Move({args.statistics, args.losses}); }

void PacedOps::DoLossSum(const Tensor& losses, const Tensor& weights, const Tensor& sums) {
  Move({losses, weights});
  const std::array<float, 2> values = {0, static_cast<float>(losses.count())};
  std::memcpy(sums.data, values.data(), sizeof(values));
}

void PacedOps::DoSumOfSquares(std::span<const Tensor> ranges, const Tensor& /*sums*/) {
  Touched touched;
  for (const Tensor& range : ranges) {
    Add(touched, range);
  }
  Move(touched);
}

void PacedOps::DoUpdate(std::span<const UpdateRange> ranges, const UpdateArgs& args) {
  Touched touched;
  for (const UpdateRange& range : ranges) {
    for (const Tensor& state : {range.weight, range.low, range.first_moment, range.second_moment}) {
      Add(touched, state, 2);
    }
    Add(touched, range.gradient, ChangesWeights(args.kind) ? 1 : 2);
  }
  Move(touched);
}

void PacedOps::DoSumSquaresByAxis(const MatrixPart& part, float /*scale*/) { Move({part.values}); }
void PacedOps::DoScaleByAxis(const MatrixPart& part, float /*scale*/) { Move({part.values, part.values}); }
void PacedOps::DoSplit(const Tensor& high, const Tensor& low, const Tensor& from) { Move({high, low, from}); }
void PacedOps::DoJoin(const Tensor& to, const Tensor& high, const Tensor& low) { Move({to, high, low}); }

void PacedOps::DoPackInt8(const Tensor& packed, const Tensor& from) { Move({packed, from}); }

void PacedOps::DoUnpackInt8(const Tensor& to, const Tensor& packed, const Int8Sum& /*sum*/) { Move({to, packed}); }

void PacedOps::DoReduce(const Tensor& to, std::span<const void* const> sources, bool /*maximum*/) {
  Touched touched;
  Add(touched, to, 1 + static_cast<double>(sources.size()));
  Move(touched);
}

}  // namespace trireme
