#include "nn/swap_heads.h"

#include <utility>

namespace trireme {
namespace {

Tensor From(const Tensor& tensor, std::int64_t first) { return tensor.Range(first, tensor.count() - first); }

}  // namespace

void HeadCopies::Copy(HeadOrder order, const Tensor& from, const Tensor& to) const {
  const Tensor& first = back ? to : from;
  const Tensor& second = back ? from : to;
  switch (order) {
    case HeadOrder::kParts:
      return CopyParts(first, second);
    case HeadOrder::kSequences:
      return CopyChunks(first, second);
  }
}

void HeadCopies::CopyEitherWay(BlockCopy copy) const {
  if (back) {
    std::swap(copy.to, copy.from);
    std::swap(copy.to_stride, copy.from_stride);
  }
  ops.CopyBlocks(copy);
}

void HeadCopies::CopyParts(const Tensor& rows, const Tensor& parts) const {
  const std::int64_t groups[] = {sizes.heads, packed ? sizes.kv_heads : 0, packed ? sizes.kv_heads : 0};
  for (int rank = 0; rank < sizes.head_ranks; ++rank) {
    std::int64_t row_column = 0;
    std::int64_t part_column = 0;
    for (const std::int64_t heads : groups) {
      const std::int64_t columns = heads / sizes.head_ranks * sizes.head_size;
      if (columns > 0) {
        CopyEitherWay({.to = From(parts, rank * sizes.tokens * part_width() + part_column),
                       .from = From(rows, row_column + rank * columns),
                       .rows = sizes.tokens,
                       .columns = columns,
                       .to_stride = part_width(),
                       .from_stride = width()});
      }
      row_column += heads * sizes.head_size;
      part_column += columns;
    }
  }
}

void HeadCopies::CopyChunks(const Tensor& by_rank, const Tensor& by_sequence) const {
  // The group's tokens are early chunks in order and late ones in the opposite order, as of a sequence of their own.
  const ContextShare share{
      .sequence = sizes.head_ranks * sizes.sequence, .degree = sizes.head_ranks, .rank = 0, .stripes = sizes.stripes};
  for (int chunk = 0; chunk < share.chunks(); ++chunk) {
    const ChunkPlace place = PlaceOfChunk(share, chunk);
    CopyEitherWay({.to = From(by_sequence, chunk * share.chunk() * part_width()),
                   .from = From(by_rank, (place.rank * sizes.tokens + place.first) * part_width()),
                   .rows = sizes.batch,
                   .columns = share.chunk() * part_width(),
                   .to_stride = share.sequence * part_width(),
                   .from_stride = sizes.sequence * part_width()});
  }
}

}  // namespace trireme
