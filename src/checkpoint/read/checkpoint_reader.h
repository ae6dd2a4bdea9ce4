// Reads a checkpoint under any layout: a caller asks for the elements it wants, whichever rank saved them. Every chunk
// that is touched is checked against its digest before a value leaves it. Opening checks the manifest, the size of
// every shard and the digest of every shard's header; data is checked as it is read. Any number of threads may read.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/format/shard_header.h"

namespace trireme {

// A slice of a tensor in one shard file.
struct StoredSlice {
  std::int64_t shard = 0;  // index into manifest().shards
  ShardSlice slice;
};

struct StoredTensor {
  ManifestTensor about;
  std::vector<StoredSlice> slices;
};

// What is wrong, and where. `offset` is a byte of the file; -1 when the fault has no place.
struct Problem {
  std::string file;
  std::string tensor;  // "master block.0.attention.qkv.weight", or ""
  std::int64_t offset = -1;
  std::string message;
  std::string ToString() const;
};

class CheckpointReader {
 public:
  // `folder` is a checkpoint's own (step-000100). An Error names the file that is missing, short or damaged.
  explicit CheckpointReader(std::string folder);

  const std::string& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // sorted by (kind, name)
  // Of the rank of the save whose place `rank` takes: its own, or, of more ranks than saved, that of rank modulo them.
  const std::string& DeviceChoices(std::int64_t rank) const;
  // nullptr when it was not saved.
  const StoredTensor* Find(const std::string& name, const std::string& kind) const;

  // out[run.local + i] = element run.global + i, for each run. Runs must not overlap. An Error names file, tensor and
  // offset; `out` is then undefined.
  void Read(const StoredTensor& tensor, std::span<const SliceRun> runs, float* out) const;
  // Elements [first, first + out.size()) of the flattened tensor.
  void Read(const StoredTensor& tensor, std::int64_t first, std::span<float> out) const;
  // The digest of the whole tensor in global order: equal under every layout.
  Digest DigestOfTensor(const StoredTensor& tensor) const;
  // Checks all data of one shard, and goes on after a fault.
  void VerifyShard(std::int64_t shard, const std::function<void(const Problem&)>& report) const;
  // Checks that the slices of each tensor hold every element exactly once.
  void VerifyCoverage(const std::function<void(const Problem&)>& report) const;

 private:
  void AddShard(std::int64_t index);
  void CheckCounts() const;
  std::string PathOf(std::int64_t shard) const;

  std::string folder_;
  Manifest manifest_;
  std::vector<StoredTensor> tensors_;
  std::vector<std::string> device_choices_;  // by shard
};

}  // namespace trireme
