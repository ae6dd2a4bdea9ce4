#include "nn/swap_heads.h"

#include <utility>

namespace trireme {
namespace {

void CopyEitherWay(Ops& ops, BlockCopy copy, bool forward) {
  if (!forward) {
    std::swap(copy.to, copy.from);
    std::swap(copy.to_stride, copy.from_stride);
  }
  ops.CopyBlocks(copy);
}

Tensor From(const Tensor& tensor, std::int64_t first) { return tensor.Range(first, tensor.count() - first); }

}  // namespace

void HeadSwap::CopyParts(const Tensor& rows, const Tensor& parts, bool to_parts) const {
  const std::int64_t groups[] = {sizes.heads, packed ? sizes.kv_heads : 0, packed ? sizes.kv_heads : 0};
  for (int rank = 0; rank < sizes.head_ranks; ++rank) {
    std::int64_t row_column = 0;
    std::int64_t part_column = 0;
    for (const std::int64_t heads : groups) {
      const std::int64_t columns = heads / sizes.head_ranks * sizes.head_size;
      if (columns > 0) {
        CopyEitherWay(ops,
                      {.to = From(parts, rank * sizes.tokens * part_width() + part_column),
                       .from = From(rows, row_column + rank * columns),
                       .rows = sizes.tokens,
                       .columns = columns,
                       .to_stride = part_width(),
                       .from_stride = width()},
                      to_parts);
      }
      row_column += heads * sizes.head_size;
      part_column += columns;
    }
  }
}

void HeadSwap::CopyChunks(const Tensor& by_rank, const Tensor& by_sequence, bool to_sequences) const {
  // The group's tokens are early chunks in order and late ones in the opposite order, as of a sequence of their own.
  const ContextShare share{
      .sequence = sizes.head_ranks * sizes.sequence, .degree = sizes.head_ranks, .rank = 0, .stripes = sizes.stripes};
  for (int chunk = 0; chunk < share.chunks(); ++chunk) {
    const ChunkPlace place = PlaceOfChunk(share, chunk);
    CopyEitherWay(ops,
                  {.to = From(by_sequence, chunk * share.chunk() * part_width()),
                   .from = From(by_rank, (place.rank * sizes.tokens + place.first) * part_width()),
                   .rows = sizes.batch,
                   .columns = share.chunk() * part_width(),
                   .to_stride = share.sequence * part_width(),
                   .from_stride = sizes.sequence * part_width()},
                  to_sequences);
  }
}

void HeadSwap::ToHeads(const Tensor& from, const Tensor& to, const Tensor& staging) const {
  CopyParts(from, to, true);
  group.AllToAll(to, staging);
  CopyChunks(staging, to, true);
}

void HeadSwap::ToTokens(const Tensor& from, const Tensor& to, const Tensor& staging) const {
  CopyChunks(to, from, false);
  group.AllToAll(to, staging);
  CopyParts(to, staging, false);
}

}  // namespace trireme
