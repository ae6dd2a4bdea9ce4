#include "checkpoint/format/shard_header.h"

#include "checkpoint/format/rank_choices.h"
#include "fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  return Tolerate([&] {
    FuzzInput input(data, size);
    const Container file = MakeContainer(input);
    ShardHeader header = ParseShardHeader(file.header, file.file_bytes, "input");
    for (const ShardSlice& slice : header.slices) {
      if (slice.offset < 0 || slice.offset + slice.bytes() > file.file_bytes) {
        __builtin_trap();
      }
      for (const SlicePiece& piece : slice.pieces) {
        const std::int64_t last = piece.first + (piece.times - 1) * piece.stride + piece.count;
        if (piece.first < 0 || last > slice.shape.count()) {
          __builtin_trap();
        }
      }
    }
    FormatShardHeader(header);
    ParseRankChoices(header.device_choices, "input");
  });
}
