// Packed documents as cuDNN's batch entries of varying length: every sequence is cut between documents into segments,
// and attention computes no pair of two segments. Asynchronous on the context's stream; nothing is read by the host, so
// that recorded launches hold for other documents.
#pragma once

#include <cstdint>

#include "device/cuda/cuda_context.h"
#include "device/ops.h"

namespace trireme {

// How many segments each sequence of `args` is cut into, at most; 1 where cutting is not worth its cost. Segment k
// begins at the first document from position k * T / segments on, so that one holds several short documents, or the
// rest of a long one, and some are empty: any number of documents fits.
std::int64_t SegmentsOf(const AttentionArgs& args);

// GPU memory: N = batch * segments entries, in the order of their rows.
struct SegmentTable {
  std::int32_t* lengths = nullptr;               // [N]
  std::int64_t* packed_offsets = nullptr;        // [N + 1], elements of qkv before an entry's first row
  std::int64_t* out_offsets = nullptr;           // likewise of out,
  std::int64_t* statistic_offsets = nullptr;     // of numbers for each row and head,
  std::int64_t* key_gradient_offsets = nullptr;  // and of rows of key heads
  std::int32_t* document_starts = nullptr;       // [N, T], counted from an entry's first row; what is past it is unset

  static std::int64_t Bytes(const AttentionArgs& args, std::int64_t segments);
  // Within `memory` of Bytes, aligned to 256.
  SegmentTable(void* memory, const AttentionArgs& args, std::int64_t segments);
};

// Fills the table from args.document_starts.
void CutIntoSegments(const CudaContext& context, const AttentionArgs& args, std::int64_t segments,
                     const SegmentTable& table);

// [B, H, T] out of [B, T, H], and back.
void StatisticsFromRows(const CudaContext& context, const AttentionArgs& args, const float* rows, float* statistics);
void StatisticsToRows(const CudaContext& context, const AttentionArgs& args, const float* statistics, float* rows);

}  // namespace trireme
