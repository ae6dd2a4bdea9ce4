// What one rank saved: a safetensors file whose metadata says, for each tensor of the file, which slice of which
// parameter it is, and the digest of each chunk of its bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/checksum.h"
#include "base/shape.h"
#include "checkpoint/format/slice_pieces.h"

namespace trireme {

// Kinds of state a parameter has.
inline constexpr char kMasterKind[] = "master";               // the fp32 weights
inline constexpr char kFirstMomentKind[] = "first_moment";    // Adam's m
inline constexpr char kSecondMomentKind[] = "second_moment";  // Adam's v
inline constexpr char kRowMomentKind[] = "row_moment";        // Adafactor's, one number per row of a matrix
inline constexpr char kColumnMomentKind[] = "column_moment";

// Digests cover a slice's bytes in chunks of this size, the last one shorter.
inline constexpr std::int64_t kChunkBytes = std::int64_t{4} << 20;
inline constexpr std::int64_t kElementBytes = 4;  // all state is fp32

struct ShardSlice {
  std::string tensor;  // the parameter's name
  std::string kind;
  Shape shape;  // of the whole parameter
  std::vector<SlicePiece> pieces;
  std::int64_t offset = 0;  // bytes, in the file
  std::vector<Digest> chunks;

  std::int64_t count() const { return ElementsOf(pieces); }
  std::int64_t bytes() const { return count() * kElementBytes; }
};

struct ShardHeader {
  std::int64_t step = 0;
  // Which save of the process this is, counted from 0: tells a shard apart from one that an earlier, failed save of the
  // same step left behind.
  std::int64_t attempt = 0;
  std::int64_t rank = 0;
  std::int64_t ranks = 1;
  std::string device_choices;      // how the rank's device did its operations; empty: it had nothing to choose
  std::vector<ShardSlice> slices;  // in the order of their bytes, which fill the file
};

// "shard-00007.safetensors"
std::string ShardFileName(std::int64_t rank);

// Bytes of the header; sets every slice's offset. Its length does not depend on the digests, as long as each slice has
// all of its chunks.
std::string FormatShardHeader(ShardHeader& header);
ShardHeader ParseShardHeader(std::string_view bytes, std::int64_t file_bytes, const std::string& origin);
// The bytes to parse, and the size of the file they came from.
struct ShardBytes {
  std::string header;
  std::int64_t file = 0;
};
// An Error names the file: missing, a symbolic link, too short.
ShardBytes ReadShardBytes(const std::string& path);

}  // namespace trireme
