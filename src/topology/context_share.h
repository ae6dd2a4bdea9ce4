// Which tokens of a sequence a context rank holds. The sequence is cut into 2 * degree chunks, of which rank r holds
// chunk r and chunk 2 * degree - 1 - r (zig-zag): one early and one late, so that causal attention is the same work on
// every rank. With several stripes each stripe of the sequence is cut so: documents, whose attention begins anew, are
// then spread over all ranks. The only place that knows this order.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme {

struct ContextShare {
  std::int64_t sequence = 0;  // T; 2 * degree * stripes divides it where degree > 1
  int degree = 1;
  int rank = 0;
  int stripes = 1;

  // Chunks of the sequence; tokens of it here, and of one chunk.
  int chunks() const { return degree == 1 ? 1 : 2 * degree * stripes; }
  std::int64_t tokens() const { return sequence / degree; }
  std::int64_t chunk() const { return sequence / chunks(); }
  // The position in the sequence of token i of those here.
  std::int64_t Position(std::int64_t i) const {
    if (degree == 1) {
      return i;
    }
    const std::int64_t own = i / chunk();  // two of each stripe
    const std::int64_t within = own % 2 == 0 ? rank : 2 * degree - 1 - rank;
    return (own / 2 * 2 * degree + within) * chunk() + i % chunk();
  }
  // Positions of the first tokens of the chunks here, ascending.
  std::vector<std::int64_t> Chunks() const {
    std::vector<std::int64_t> first;
    for (std::int64_t i = 0; i < tokens(); i += chunk()) {
      first.push_back(Position(i));
    }
    return first;
  }
};

// Where a chunk of a sequence lies: on which rank, and from which of its tokens on.
struct ChunkPlace {
  int rank = 0;
  std::int64_t first = 0;
};
inline ChunkPlace PlaceOfChunk(const ContextShare& share, int chunk) {
  const int stripe = chunk / (2 * share.degree);
  const int within = chunk % (2 * share.degree);
  const bool early = within < share.degree;
  return {.rank = early ? within : 2 * share.degree - 1 - within,
          .first = (2 * stripe + (early ? 0 : 1)) * share.chunk()};
}

}  // namespace trireme
