// The data of shards, read chunk by chunk and checked against the digests that were saved.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/format/shard_header.h"
#include "checkpoint/read/checkpoint_reader.h"
#include "data/files/input_file.h"

namespace trireme {

// "master block.0.attention.qkv.weight"
std::string Label(const ManifestTensor& tensor);

// One chunk of a slice, read whole and checked. Refers to the arguments.
class ChunkReader {
 public:
  ChunkReader(const InputFile& file, const ShardSlice& slice, const ManifestTensor& tensor)
      : file_(file), slice_(slice), tensor_(tensor) {}

  // Makes chunk `index` the current one. What is wrong with it, if anything.
  std::optional<Problem> Load(std::int64_t index);

  const std::vector<float>& values() const { return values_; }

 private:
  const InputFile& file_;
  const ShardSlice& slice_;
  const ManifestTensor& tensor_;
  std::vector<float> values_;
};

struct SlicesOfShard {
  std::string path;
  std::vector<std::pair<const ManifestTensor*, ShardSlice>> slices;
};
// What is wrong with the data of each shard. The shards are divided among a few threads.
std::vector<std::vector<Problem>> VerifyShards(const std::vector<SlicesOfShard>& shards);

}  // namespace trireme
