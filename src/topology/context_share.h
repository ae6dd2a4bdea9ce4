// Which tokens of a sequence a context rank holds. The sequence is cut into 2 * degree chunks, of which rank r holds
// chunk r and chunk 2 * degree - 1 - r (zig-zag): one early and one late, so that causal attention is the same work on
// every rank. The only place that knows this order.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme {

struct ContextShare {
  std::int64_t sequence = 0;  // T; 2 * degree divides it where degree > 1
  int degree = 1;
  int rank = 0;

  // Tokens of the sequence here, and of one chunk.
  std::int64_t tokens() const { return sequence / degree; }
  std::int64_t chunk() const { return degree == 1 ? sequence : sequence / (2 * degree); }
  // The position in the sequence of token i of those here.
  std::int64_t Position(std::int64_t i) const {
    if (degree == 1) {
      return i;
    }
    return i < chunk() ? rank * chunk() + i : (2 * degree - 1 - rank) * chunk() + i - chunk();
  }
  // Positions of the first tokens of the chunks here, ascending.
  std::vector<std::int64_t> Chunks() const {
    return degree == 1 ? std::vector<std::int64_t>{0} : std::vector<std::int64_t>{Position(0), Position(chunk())};
  }
};

// Where a chunk of a sequence lies: on which rank, and from which of its tokens on.
struct ChunkPlace {
  int rank = 0;
  std::int64_t first = 0;
};
inline ChunkPlace PlaceOfChunk(const ContextShare& share, int chunk) {
  const bool early = chunk < share.degree;
  return {.rank = early ? chunk : 2 * share.degree - 1 - chunk, .first = early ? 0 : share.chunk()};
}

}  // namespace trireme
