// Ulysses: what is copied before and after the all-to-all between this rank's tokens of all heads and a group's tokens
// of this rank's part of them.
#pragma once

#include "device/ops.h"
#include "lowering/local_sizes.h"
#include "lowering/module_program.h"

namespace trireme {

// Rows of tokens hold query heads, or with `packed` query, key and value heads. Rank r of the group, which has
// sizes.head_ranks, works on the r-th part of each of these. `from` and `to` are different memory of equal size.
struct HeadCopies {
  Ops& ops;
  const LocalSizes& sizes;
  bool packed = false;
  bool back = false;

  void Copy(HeadOrder order, const Tensor& from, const Tensor& to) const;

 private:
  std::int64_t width() const { return packed ? sizes.qkv : sizes.attention; }
  std::int64_t part_width() const { return width() / sizes.head_ranks; }
  // From `from` to `to`, or the other way with `back`.
  void CopyEitherWay(BlockCopy copy) const;
  // Between rows of this rank's tokens and the parts of all ranks, one after another.
  void CopyParts(const Tensor& rows, const Tensor& parts) const;
  // Between all tokens in the order of ranks and in the order of sequences.
  void CopyChunks(const Tensor& by_rank, const Tensor& by_sequence) const;
};

}  // namespace trireme
