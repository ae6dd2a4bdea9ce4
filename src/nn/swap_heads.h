// Ulysses: the all-to-all between this rank's tokens of all heads and a group's tokens of this rank's part of them.
#pragma once

#include "comm/communicator.h"
#include "device/ops.h"
#include "lowering/local_sizes.h"

namespace trireme {

// Rows of tokens hold query heads, or with `packed` query, key and value heads. Rank r of the group, which has
// sizes.head_ranks, works on the r-th part of each of these. `from`, `to` and `staging` are different memory of equal
// size.
struct HeadSwap {
  Ops& ops;
  Communicator& group;
  const LocalSizes& sizes;
  bool packed = false;

  // [tokens, width] -> [head_ranks * tokens, width / head_ranks], each sequence's tokens in their order.
  void ToHeads(const Tensor& from, const Tensor& to, const Tensor& staging) const;
  // The inverse.
  void ToTokens(const Tensor& from, const Tensor& to, const Tensor& staging) const;

 private:
  std::int64_t width() const { return packed ? sizes.qkv : sizes.attention; }
  std::int64_t part_width() const { return width() / sizes.head_ranks; }
  // Between rows of this rank's tokens and the parts of all ranks, one after another.
  void CopyParts(const Tensor& rows, const Tensor& parts, bool to_parts) const;
  // Between all tokens in the order of ranks and in the order of sequences.
  void CopyChunks(const Tensor& by_rank, const Tensor& by_sequence, bool to_sequences) const;
};

}  // namespace trireme
