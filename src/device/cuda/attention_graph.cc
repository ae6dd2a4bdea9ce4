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
    if (shape_.segments) {
      query_lengths_ = graph.Real(kQueryLengths, CUDNN_DATA_INT32, {shape_.batch, 1, 1, 1}, {1, 1, 1, 1});
      key_lengths_ = graph.Real(kKeyLengths, CUDNN_DATA_INT32, {shape_.batch, 1, 1, 1}, {1, 1, 1, 1});
      packed_offsets_ = Offsets(kPackedOffsets);
      out_offsets_ = Offsets(kOutOffsets);
      statistic_offsets_ = Offsets(kStatisticOffsets);
    }
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
    if (shape_.capped) {
      cap_ = graph.Scalar(kCap);
    }
    if (shape_.documents) {
      hidden_ = graph.Scalar(kHidden);
      const Extents per_query{shape_.batch, 1, shape_.queries, 1};
      document_starts_ = graph.Real(kDocumentStarts, CUDNN_DATA_INT32, per_query, DenseStrides(per_query));
    }
  }

  // Query heads within packed rows, [B, H, Tq, D].
  Value Queries(AttentionTensor id) {
    return graph.Real(id, stored, PerQueryHead(), {shape_.query_sequence, shape_.head_size, shape_.query_row, 1},
                      packed_offsets_);
  }
  // Key or value heads, [B, Hkv, Tk, D].
  Value Keys(AttentionTensor id) {
    return graph.Real(id, stored, {shape_.batch, shape_.kv_heads, shape_.keys, shape_.head_size},
                      {shape_.key_sequence, shape_.head_size, shape_.key_row, 1}, packed_offsets_);
  }
  // Keys as [B, Hkv, D, Tk]: cuDNN wants the second factor of a product so.
  Value KeysTransposed(AttentionTensor id) {
    return graph.Real(id, stored, {shape_.batch, shape_.kv_heads, shape_.head_size, shape_.keys},
                      {shape_.key_sequence, shape_.head_size, 1, shape_.key_row}, packed_offsets_);
  }
  // Rows of all query heads and nothing else, [B, H, Tq, D].
  Value Rows(AttentionTensor id) {
    return graph.Real(id, stored, PerQueryHead(), {shape_.out_sequence, shape_.head_size, shape_.out_row, 1},
                      out_offsets_);
  }
  // fp32 numbers of each row: [B, H, Tq], or, of segments, [rows, H].
  Value RealPerRow(AttentionTensor id) {
    const Extents by_rows{shape_.queries * shape_.heads, 1, shape_.heads, 1};
    return graph.Real(id, CUDNN_DATA_FLOAT, PerRow(), shape_.segments ? by_rows : DenseStrides(PerRow()),
                      statistic_offsets_);
  }
  Value Statistics() { return RealPerRow(kStatistics); }
  Value NewPerRow() { return graph.Virtual(CUDNN_DATA_FLOAT, PerRow()); }
  Extents PerRow() const { return {shape_.batch, shape_.heads, shape_.queries, 1}; }
  Extents PerQueryHead() const { return {shape_.batch, shape_.heads, shape_.queries, shape_.head_size}; }

  // scale * q.k, plus slope * column: that differs from the definition by a constant of each row. Capped where there is
  // a cap.
  Value Scores(Value query, Value key_transposed) {
    Value score = graph.Pointwise(CUDNN_POINTWISE_MUL, PairProduct(query, key_transposed), scale);
    if (slopes_ != nullptr) {
      const Value bias = graph.Pointwise(CUDNN_POINTWISE_MUL, graph.Index(score, 3), slopes_);
      score = graph.Pointwise(CUDNN_POINTWISE_ADD, score, bias);
    }
    if (cap_ != nullptr) {
      in_caps_ = graph.Pointwise(CUDNN_POINTWISE_DIV, score, cap_);
      score = graph.Pointwise(CUDNN_POINTWISE_MUL, graph.Pointwise(CUDNN_POINTWISE_TANH_FWD, in_caps_), cap_);
    }
    if (shape_.segments) {
      const Value row = graph.Index(score, 2);
      const Value column = graph.Index(score, 3);
      const Value inside =
          graph.Compare(CUDNN_POINTWISE_LOGICAL_AND, graph.Compare(CUDNN_POINTWISE_CMP_LT, row, query_lengths_),
                        graph.Compare(CUDNN_POINTWISE_CMP_LT, column, key_lengths_));
      score = graph.Select(inside, score, minus_infinity_);
    }
    return score;
  }
  // One number for each query and key.
  Value PairProduct(Value left, Value right) {
    return graph.Matmul(left, right, nullptr, {.m = query_lengths_, .n = key_lengths_});
  }
  // One row for each query, or for each key.
  Value QueryProduct(Value left, Value right, Value result) {
    return graph.Matmul(left, right, result, {.m = query_lengths_, .k = key_lengths_});
  }
  Value KeyProduct(Value left, Value right, Value result) {
    return graph.Matmul(left, right, result, {.m = key_lengths_, .k = query_lengths_});
  }
  // The gradient of scores before the cap, out of that of the scores that Scores returned last.
  Value BeforeCap(Value gradient) {
    return cap_ == nullptr ? gradient : graph.PointwiseBackward(CUDNN_POINTWISE_TANH_BWD, gradient, in_caps_);
  }
  // The comparisons must be these: with their sides exchanged the numbers are right and no tile is skipped. The window
  // is a second selection, of keys whose number plus the window is more than the query's, and documents a third. What
  // documents hide is finite: a query may meet whole tiles of it before its first key, and minus infinity less itself
  // is no number.
  Value Masked(Value score) {
    if (!shape_.causal) {
      return score;
    }
    const Value row = graph.Index(score, 2);
    const Value column = graph.Index(score, 3);
    Value masked = graph.Select(graph.Compare(CUDNN_POINTWISE_CMP_GE, row, column), score, minus_infinity_);
    if (window_ != nullptr) {
      const Value last = graph.Pointwise(CUDNN_POINTWISE_ADD, graph.Index(masked, 3), window_);
      const Value within = graph.Compare(CUDNN_POINTWISE_CMP_GT, last, graph.Index(masked, 2));
      masked = graph.Select(within, masked, minus_infinity_);
    }
    if (document_starts_ != nullptr) {
      const Value own = graph.Compare(CUDNN_POINTWISE_CMP_GE, graph.Index(masked, 3), document_starts_);
      masked = graph.Select(own, masked, hidden_);
    }
    return masked;
  }
  // Key or value gradients: summed over the query heads of a group where there are several.
  void GroupProduct(Value left, Value right, AttentionTensor id, AttentionTensor all_id) {
    if (shape_.heads == shape_.kv_heads) {
      KeyProduct(left, right, Keys(id));
      return;
    }
    const Extents per_head{shape_.batch, shape_.heads, shape_.keys, shape_.head_size};
    if (!shape_.segments) {
      graph.Reduce(CUDNN_REDUCE_TENSOR_ADD, KeyProduct(left, right, graph.Virtual(stored, per_head)), Keys(id));
      return;
    }
    // For all heads cuDNN takes the offsets of the sums times the heads of a group.
    if (key_gradient_offsets_ == nullptr) {
      key_gradient_offsets_ = Offsets(kKeyGradientOffsets);
    }
    const std::int64_t row = shape_.kv_heads * shape_.head_size;
    const std::int64_t all_row = shape_.heads * shape_.head_size;
    const Value all_heads = graph.Real(all_id, stored, per_head, {shape_.keys * all_row, shape_.head_size, all_row, 1},
                                       key_gradient_offsets_);
    const Value sums = graph.Real(id, stored, {shape_.batch, shape_.kv_heads, shape_.keys, shape_.head_size},
                                  {shape_.keys * row, shape_.head_size, row, 1}, key_gradient_offsets_);
    graph.Reduce(CUDNN_REDUCE_TENSOR_ADD, KeyProduct(left, right, all_heads), sums);
  }
  // fp32 sums of the queries' gradients, in the layout of the gradients themselves where there are segments.
  Value QuerySums() {
    const Extents extents = PerQueryHead();
    const Extents as_gradients{shape_.query_sequence, shape_.head_size, shape_.query_row, 1};
    return graph.Real(kQuerySums, CUDNN_DATA_FLOAT, extents, shape_.segments ? as_gradients : DenseStrides(extents),
                      packed_offsets_);
  }

  cudnnDataType_t stored;
  CudnnGraph graph;
  Value scale = nullptr;

 private:
  Value Offsets(AttentionTensor id) {
    return graph.Real(id, CUDNN_DATA_INT64, {shape_.batch + 1, 1, 1, 1}, {1, 1, 1, 1});
  }

  AttentionShape shape_;
  Value query_lengths_ = nullptr;
  Value key_lengths_ = nullptr;
  Value packed_offsets_ = nullptr;
  Value out_offsets_ = nullptr;
  Value statistic_offsets_ = nullptr;
  Value key_gradient_offsets_ = nullptr;
  Value slopes_ = nullptr;
  Value minus_infinity_ = nullptr;
  Value window_ = nullptr;
  Value cap_ = nullptr;
  Value in_caps_ = nullptr;  // scores over the cap
  Value hidden_ = nullptr;
  Value document_starts_ = nullptr;
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
          .capped = args.cap > 0,
          .documents = args.document_starts.given(),
          .segments = false,
          .stored = StoredType(args)};
}

AttentionShape AttentionShapeOf(const AttentionArgs& args) {
  return AttentionShapeOf(args,
                          {.query = 0, .queries = args.sequence, .key = 0, .keys = args.sequence, .causal = true});
}

AttentionShape SegmentShapeOf(const AttentionArgs& args, std::int64_t segments) {
  AttentionShape shape = AttentionShapeOf(args);
  shape.batch *= segments;
  shape.segments = true;
  return shape;
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
  build.QueryProduct(probability, value, build.Rows(kOut));
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
  const Value row_sum =
      graph.Pointwise(CUDNN_POINTWISE_MUL, graph.Reduce(CUDNN_REDUCE_TENSOR_ADD, products, build.NewPerRow()),
                      graph.Scalar(kOne), shape.segments ? build.RealPerRow(kRowSums) : nullptr);

  const Value score = graph.Pointwise(CUDNN_POINTWISE_SUB, build.Scores(query, key), build.Statistics());
  const Value probability = graph.Pointwise(CUDNN_POINTWISE_EXP, build.Masked(score));
  build.GroupProduct(graph.Transpose(probability, build.stored), grad_out, kGradValue, kAllValueGradients);

  const Value centred = graph.Pointwise(CUDNN_POINTWISE_SUB, build.PairProduct(grad_out, value), row_sum);
  const Value weighted = graph.Pointwise(CUDNN_POINTWISE_MUL, centred, probability);
  const Value grad_score = graph.Pointwise(CUDNN_POINTWISE_MUL, build.BeforeCap(weighted), build.scale);
  build.GroupProduct(graph.Transpose(grad_score, build.stored), query, kGradKey, kAllKeyGradients);

  const Value grad_query = build.Queries(kGradQuery);
  const Value key_rows = graph.Transpose(key, build.stored);
  if (deterministic) {
    build.QueryProduct(grad_score, key_rows, grad_query);
  } else {
    const Value sums = build.QueryProduct(grad_score, key_rows, build.QuerySums());
    graph.Pointwise(CUDNN_POINTWISE_IDENTITY, sums, nullptr, grad_query);
  }
  return graph.Build(handle);
}

}  // namespace trireme
