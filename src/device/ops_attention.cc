// Checks and counts of attention and of what it needs: see ops.h.
#include "base/error.h"
#include "device/ops.h"
#include "ops/checks.h"

namespace trireme {
namespace {

// Chunks of keys lie within kv, in ascending order of positions.
void CheckKeyChunks(const char* operation, const AttentionArgs& args) {
  const auto count = static_cast<std::int64_t>(args.query_chunks.size());
  Require(count > 0 && args.sequence % count == 0, "{}: {} tokens of a sequence in {} chunks", operation, args.sequence,
          count);
  const std::int64_t rows = args.batch * args.keys();
  RequireLike({operation, "kv", args.kv}, {rows, 2 * args.kv_heads * args.head_size}, args.qkv.dtype);
  const std::int64_t last = rows - (args.batch - 1) * args.sequence - args.chunk();
  std::int64_t next = 0;
  for (const KeyChunk& chunk : args.key_chunks) {
    Require(chunk.row >= 0 && chunk.row <= last && chunk.position >= next,
            "{}: keys from position {} on begin at row {} of {}; positions must ascend", operation, chunk.position,
            chunk.row, rows);
    next = chunk.position + args.chunk();
  }
}

void CheckPackedRows(const char* operation, const AttentionArgs& args) {
  Require(args.kv_heads > 0 && args.heads % args.kv_heads == 0, "{}: {} query heads do not divide over {} key heads",
          operation, args.heads, args.kv_heads);
  const std::int64_t rows = args.batch * args.sequence;
  const std::int64_t width = (args.heads + 2 * args.kv_heads) * args.head_size;
  RequireShape({operation, "qkv", args.qkv}, {rows, width});
  RequireWorkingType({operation, "qkv", args.qkv});
  RequireLike({operation, "out", args.out}, {rows, args.heads * args.head_size}, args.qkv.dtype);
  RequireVector({operation, "statistics", args.statistics}, args.heads * rows, DType::kFloat32);
  Require(
      args.dropout.probability == 0 || (args.all_heads >= args.heads && args.all_positions >= args.sequence),
      "{}: dropout counts the heads and positions of all ranks, of which {} and {} are less than the {} and {} here",
      operation, args.all_heads, args.all_positions, args.heads, args.sequence);
  if (args.slopes.given()) {
    RequireVector({operation, "slopes", args.slopes}, args.heads, DType::kFloat32);
  }
  if (args.document_starts.given()) {
    RequireVector({operation, "document_starts", args.document_starts}, rows, DType::kInt32);
  }
  if (args.kv.given()) {
    CheckKeyChunks(operation, args);
  }
}

void CheckScores(const char* operation, const AttentionArgs& args, bool uses_scores) {
  if (!args.weights.given()) {
    return;
  }
  const std::int64_t pairs = args.batch * args.heads * args.sequence * args.keys();
  RequireVector({operation, "weights", args.weights}, pairs, args.qkv.dtype);
  if (uses_scores) {
    RequireVector({operation, "scores", args.scores}, pairs, args.qkv.dtype);
  }
}

}  // namespace

void Ops::AttentionForward(const AttentionArgs& args) {
  CheckPackedRows("AttentionForward", args);
  CheckScores("AttentionForward", args, args.dropout.probability > 0);
  Count(0, AttentionForwardFlops(args));
  if (args.out.count() != 0) {
    DoAttentionForward(args);
  }
}

void Ops::AttentionBackward(const AttentionArgs& args) {
  CheckPackedRows("AttentionBackward", args);
  CheckScores("AttentionBackward", args, true);
  RequireLike({"AttentionBackward", "grad_out", args.grad_out}, args.out.shape, args.qkv.dtype);
  RequireLike({"AttentionBackward", "grad_qkv", args.grad_qkv}, args.qkv.shape, args.qkv.dtype);
  if (args.kv.given()) {
    RequireLike({"AttentionBackward", "grad_kv", args.grad_kv}, args.kv.shape, args.kv.dtype);
  }
  const std::int64_t forward = AttentionForwardFlops(args);
  Count(0, args.weights.given() ? 2 * forward : forward / 2 * 5);
  if (args.out.count() != 0) {
    DoAttentionBackward(args);
  }
}

void Ops::MergeAttention(const AttentionMerge& merge) {
  constexpr auto kName = "MergeAttention";
  const std::int64_t rows = merge.batch * merge.sequence;
  RequireLike({kName, "out", merge.out}, {rows, merge.heads * merge.head_size}, DType::kFloat32);
  RequireShape({kName, "part_out", merge.part_out}, merge.out.shape);
  RequireWorkingType({kName, "part_out", merge.part_out});
  RequireVector({kName, "statistics", merge.statistics}, rows * merge.heads, DType::kFloat32);
  RequireVector({kName, "part_statistics", merge.part_statistics}, rows * merge.heads, DType::kFloat32);
  if (merge.out.count() != 0) {
    DoMergeAttention(merge);
  }
}

void Ops::DecodeAttention(const DecodeAttentionArgs& args) {
  constexpr auto kName = "DecodeAttention";
  Require(args.kv_heads > 0 && args.heads % args.kv_heads == 0, "{}: {} query heads do not divide over {} key heads",
          kName, args.heads, args.kv_heads);
  const std::int64_t rows = args.batch * args.queries;
  RequireShape({kName, "qkv", args.qkv}, {rows, (args.heads + 2 * args.kv_heads) * args.head_size});
  RequireWorkingType({kName, "qkv", args.qkv});
  RequireLike({kName, "out", args.out}, {rows, args.heads * args.head_size}, args.qkv.dtype);
  const std::int64_t cached = args.batch * args.capacity * args.kv_heads * args.head_size;
  RequireVector({kName, "keys", args.keys}, cached, args.qkv.dtype);
  RequireVector({kName, "values", args.values}, cached, args.qkv.dtype);
  RequireVector({kName, "starts", args.starts}, args.batch, DType::kInt32);
  if (args.slopes.given()) {
    RequireVector({kName, "slopes", args.slopes}, args.heads, DType::kFloat32);
  }
  if (args.out.count() != 0) {
    DoDecodeAttention(args);
  }
}

}  // namespace trireme
