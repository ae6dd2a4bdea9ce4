// How operations over many ranges of elements cut them: a block of threads per chunk.
#pragma once

#include <cstdint>

#include "base/shape.h"

namespace trireme {

inline constexpr int kChunkThreads = 256;
// Elements that one block handles. A multiple of 8, so that a chunk is aligned where its range is.
inline constexpr std::int64_t kChunk = 8192;

inline std::int64_t ChunksOf(std::int64_t count) { return CeilDiv(count, kChunk); }

}  // namespace trireme
