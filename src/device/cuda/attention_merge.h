// Kernels that put attention over several blocks of keys together: results by their log-sum-exp, gradients of queries
// by fp32 sums. Asynchronous on the context's stream.
#pragma once

#include <cstdint>

#include "device/cuda/cuda_context.h"
#include "ops/tensor.h"

namespace trireme {

// As AttentionMerge, for a part that has `part_rows` of a sequence's `rows`, from `first_row` on.
struct PartMerge {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t head_size = 0;
  std::int64_t rows = 0;
  std::int64_t first_row = 0;
  std::int64_t part_rows = 0;
  float* out = nullptr;                    // [B, rows, H * D], as the part's
  float* statistics = nullptr;             // [B, H, rows]
  const float* part_statistics = nullptr;  // [B, H, part_rows]
};
void MergePart(const CudaContext& context, const PartMerge& merge, const Tensor& part_out);
// To minus infinity: of no keys.
void ClearStatistics(const CudaContext& context, const Tensor& statistics);

// The first `columns` of rows that lie `row_stride` elements apart; as for PartMerge, part_rows of each sequence's.
struct ColumnRange {
  std::int64_t batch = 0;
  std::int64_t rows = 0;
  std::int64_t first_row = 0;
  std::int64_t part_rows = 0;
  std::int64_t columns = 0;
  std::int64_t row_stride = 0;
};
// sums (fp32 [B, rows, columns]) += these columns; and these columns = sums.
void AddToQuerySums(const CudaContext& context, const ColumnRange& range, float* sums, const Tensor& rows);
void StoreQuerySums(const CudaContext& context, const ColumnRange& range, float* sums, const Tensor& rows);

}  // namespace trireme
