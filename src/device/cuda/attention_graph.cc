#include "device/cuda/attention_graph.h"

namespace trireme {
namespace {

using Value = CudnnGraph::Value;

cudnnDataType_t StoredType(const AttentionArgs& args) {
  return args.qkv.dtype == DType::kFloat16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
}

// A graph under construction and the views that both passes use.
class Builder {
 public:
  explicit Builder(const AttentionShape& shape) : stored(shape.stored), shape_(shape) {
    if (shape_.slopes) {
      slopes_ = graph.Real(kSlopes, CUDNN_DATA_FLOAT, {1, shape_.heads, 1, 1}, {shape_.heads, 1, 1, 1});
    }
    scale = graph.Scalar(kScale);
    if (shape_.causal) {
      minus_infinity_ = graph.Scalar(kMinusInfinity);
    }
    if (shape_.window > 0) {
      window_ = graph.Scalar(kWindow);
    }
  }

  // Query heads within packed rows, [B, H, Tq, D].
  Value Queries(AttentionTensor id) {
    return graph.Real(id, stored, PerQueryHead(), {shape_.query_sequence, shape_.head_size, shape_.query_row, 1});
  }
  // Key or value heads, [B, Hkv, Tk, D].
  Value Keys(AttentionTensor id) {
    return graph.Real(id, stored, {shape_.batch, shape_.kv_heads, shape_.keys, shape_.head_size},
                      {shape_.key_sequence, shape_.head_size, shape_.key_row, 1});
  }
  // The same as [B, Hkv, D, Tk]: cuDNN wants the second factor of a product so.
  Value KeysTransposed(AttentionTensor id) {
    return graph.Real(id, stored, {shape_.batch, shape_.kv_heads, shape_.head_size, shape_.keys},
                      {shape_.key_sequence, shape_.head_size, 1, shape_.key_row});
  }
  // Rows of all query heads and nothing else, [B, H, Tq, D].
  Value Rows(AttentionTensor id) {
    return graph.Real(id, stored, PerQueryHead(), {shape_.out_sequence, shape_.head_size, shape_.out_row, 1});
  }
  Value Statistics() { return graph.Real(kStatistics, CUDNN_DATA_FLOAT, PerRow(), DenseStrides(PerRow())); }
  Value NewPerRow() { return graph.Virtual(CUDNN_DATA_FLOAT, PerRow()); }
  Extents PerRow() const { return {shape_.batch, shape_.heads, shape_.queries, 1}; }
  Extents PerQueryHead() const { return {shape_.batch, shape_.heads, shape_.queries, shape_.head_size}; }

  // scale * q.k, plus slope * column: that differs from the definition by a constant of each row.
  Value Scores(Value query, Value key_transposed) {
    Value score = graph.Pointwise(CUDNN_POINTWISE_MUL, graph.Matmul(query, key_transposed), scale);
    if (slopes_ != nullptr) {
      const Value bias = graph.Pointwise(CUDNN_POINTWISE_MUL, graph.Index(score, 3), slopes_);
      score = graph.Pointwise(CUDNN_POINTWISE_ADD, score, bias);
    }
    return score;
  }
  // The comparisons must be these: with their sides exchanged the numbers are right and no tile is skipped. The window
  // is a second selection, of keys whose number plus the window is more than the query's.
  Value Masked(Value score) {
    if (!shape_.causal) {
      return score;
    }
    const Value row = graph.Index(score, 2);
    const Value column = graph.Index(score, 3);
    const Value causal = graph.Select(graph.Compare(CUDNN_POINTWISE_CMP_GE, row, column), score, minus_infinity_);
    if (window_ == nullptr) {
      return causal;
    }
    const Value last = graph.Pointwise(CUDNN_POINTWISE_ADD, graph.Index(causal, 3), window_);
    const Value within = graph.Compare(CUDNN_POINTWISE_CMP_GT, last, graph.Index(causal, 2));
    return graph.Select(within, causal, minus_infinity_);
  }
  // Key or value gradients: summed over the query heads of a group where there are several.
  void GroupProduct(Value left, Value right, AttentionTensor id) {
    const Value gradient = Keys(id);
    if (shape_.heads == shape_.kv_heads) {
      graph.Matmul(left, right, gradient);
    } else {
      const Value all_heads = graph.Virtual(stored, {shape_.batch, shape_.heads, shape_.keys, shape_.head_size});
      graph.Reduce(CUDNN_REDUCE_TENSOR_ADD, graph.Matmul(left, right, all_heads), gradient);
    }
  }

  cudnnDataType_t stored;
  CudnnGraph graph;
  Value scale = nullptr;

 private:
  AttentionShape shape_;
  Value slopes_ = nullptr;
  Value minus_infinity_ = nullptr;
  Value window_ = nullptr;
};

}  // namespace

AttentionShape AttentionShapeOf(const AttentionArgs& args, const AttentionBlock& block) {
  const std::int64_t packed = (args.heads + 2 * args.kv_heads) * args.head_size;
  const std::int64_t key_row = args.kv.given() ? 2 * args.kv_heads * args.head_size : packed;
  const std::int64_t out_row = args.heads * args.head_size;
  return {.batch = args.batch,
          .queries = block.queries,
          .keys = block.keys,
          .heads = args.heads,
          .kv_heads = args.kv_heads,
          .head_size = args.head_size,
          .query_sequence = args.sequence * packed,
          .query_row = packed,
          .key_sequence = args.sequence * key_row,
          .key_row = key_row,
          .out_sequence = args.sequence * out_row,
          .out_row = out_row,
          .causal = block.causal,
          .slopes = args.slopes.given(),
          .window = args.window < block.keys ? args.window : 0,
          .stored = StoredType(args)};
}

std::optional<CudnnPlan> BuildAttentionForward(const AttentionShape& shape, cudnnHandle_t handle) {
  Builder build(shape);
  CudnnGraph& graph = build.graph;
  const Value query = build.Queries(kQuery);
  const Value key = build.KeysTransposed(kKey);
  const Value value = build.Keys(kValue);
  const Value score = build.Masked(build.Scores(query, key));
  const Value maximum = graph.Reduce(CUDNN_REDUCE_TENSOR_MAX, score, build.NewPerRow());
  const Value exponential = graph.Pointwise(CUDNN_POINTWISE_EXP, graph.Pointwise(CUDNN_POINTWISE_SUB, score, maximum));
  const Value sum = graph.Reduce(CUDNN_REDUCE_TENSOR_ADD, exponential, build.NewPerRow());
  const Value log_sum = graph.Pointwise(CUDNN_POINTWISE_LOG, sum);
  graph.Pointwise(CUDNN_POINTWISE_ADD, maximum, log_sum, build.Statistics());
  const Value probability = graph.Virtual(build.stored, score->extents);
  graph.Pointwise(CUDNN_POINTWISE_DIV, exponential, sum, probability);
  graph.Matmul(probability, value, build.Rows(kOut));
  return graph.Build(handle);
}

std::optional<CudnnPlan> BuildAttentionBackward(const AttentionShape& shape, bool deterministic, cudnnHandle_t handle) {
  Builder build(shape);
  CudnnGraph& graph = build.graph;
  const Value query = build.Queries(kQuery);
  const Value key = build.KeysTransposed(kKey);
  const Value value = build.KeysTransposed(kValue);
  const Value grad_out = build.Rows(kGradOut);
  // Without the multiplication by one the planner takes another path, whose results are NaN.
  const Value products = graph.Pointwise(CUDNN_POINTWISE_MUL, grad_out, build.Rows(kOut));
  const Value row_sum = graph.Pointwise(
      CUDNN_POINTWISE_MUL, graph.Reduce(CUDNN_REDUCE_TENSOR_ADD, products, build.NewPerRow()), graph.Scalar(kOne));

  const Value score = graph.Pointwise(CUDNN_POINTWISE_SUB, build.Scores(query, key), build.Statistics());
  const Value probability = graph.Pointwise(CUDNN_POINTWISE_EXP, build.Masked(score));
  build.GroupProduct(graph.Transpose(probability, build.stored), grad_out, kGradValue);

  const Value centred = graph.Pointwise(CUDNN_POINTWISE_SUB, graph.Matmul(grad_out, value), row_sum);
  const Value grad_score =
      graph.Pointwise(CUDNN_POINTWISE_MUL, graph.Pointwise(CUDNN_POINTWISE_MUL, centred, probability), build.scale);
  build.GroupProduct(graph.Transpose(grad_score, build.stored), query, kGradKey);

  const Value grad_query = build.Queries(kGradQuery);
  const Value key_rows = graph.Transpose(key, build.stored);
  if (deterministic) {
    graph.Matmul(grad_score, key_rows, grad_query);
  } else {
    const Extents extents = build.PerQueryHead();
    const Value sums = graph.Real(kQuerySums, CUDNN_DATA_FLOAT, extents, DenseStrides(extents));
    graph.Pointwise(CUDNN_POINTWISE_IDENTITY, graph.Matmul(grad_score, key_rows, sums), nullptr, grad_query);
  }
  return graph.Build(handle);
}

}  // namespace trireme
