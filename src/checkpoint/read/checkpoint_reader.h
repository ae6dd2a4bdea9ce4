// Reads a checkpoint under any layout: a caller asks for the elements it wants, whichever rank saved them, and only the
// shards that hold some of them are opened. Every chunk that is touched is checked against its digest before a value
// leaves it. Which shard holds what is in the checkpoint's index; without one, or with a damaged one, in the headers of
// its shards. Any number of threads may read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/checkpoint_index.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/shard_header.h"
#include "data/files/input_file.h"

namespace trireme {

struct StoredTensor {
  ManifestTensor about;
  std::int64_t number = 0;  // in the index
};

// What is wrong, and where. `offset` is a byte of the file; -1 when the fault has no place.
struct Problem {
  std::string file;
  std::string tensor;  // "master block.0.attention.qkv.weight", or ""
  std::int64_t offset = -1;
  std::string message;
  std::string ToString() const;
};

// What opening a checkpoint checks besides its manifest: the size of every shard and the digest of every shard's
// header, or neither. Data is checked as it is read.
enum class ShardChecks : std::uint8_t { kAll, kNone };

class CheckpointReader {
 public:
  // `folder` is a checkpoint's own (step-000100). An Error names the file that is missing, short or damaged. Without a
  // good index all shards are checked in any case.
  explicit CheckpointReader(std::string folder, ShardChecks checks = ShardChecks::kAll);
  // From what Pack() of another rank's reader made, beginning at byte `begin`: opens no file. The manifest is without
  // its list of shards.
  CheckpointReader(std::string folder, const std::shared_ptr<const std::string>& packed, std::size_t begin);
  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;

  // What other ranks need to read this checkpoint: manifest and index.
  std::string Pack() const;
  const std::string& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // sorted by (kind, name)
  std::int64_t shards() const { return index_->shards(); }
  // Why the headers of the shards were read instead of the index; empty: the index is good, or the checkpoint is of a
  // version that has none.
  const std::string& index_problem() const { return index_problem_; }
  // Whether opening has checked the sizes and headers of all shards; Pack() tells it on.
  bool shards_checked() const { return shards_checked_; }
  // Checks the size of each shard and the digest of its header, for shards first, first + stride, …; an Error names the
  // file. Ranks divide them so.
  void CheckShards(std::int64_t first, std::int64_t stride) const;
  // The index of this checkpoint, made anew from the headers of its shards where there was none to read.
  const CheckpointIndex& index() const { return *index_; }

  // Choices of the saved rank that `rank` follows: its own or, with more ranks than saved, that of rank modulo them.
  std::string DeviceChoices(std::int64_t rank) const;
  // nullptr when it was not saved.
  const StoredTensor* Find(const std::string& name, const std::string& kind) const;
  // Slices that may hold some elements of a tensor in `range`.
  std::vector<StoredSlice> Slices(const StoredTensor& tensor, const ElementRange& range = {}) const;

  // out[run.local + i] = element run.global + i, for each run. Runs must not overlap. An Error names file, tensor and
  // offset; `out` is then undefined.
  void Read(const StoredTensor& tensor, std::span<const SliceRun> runs, float* out) const;
  // Elements [first, first + out.size()) of the flattened tensor.
  void Read(const StoredTensor& tensor, std::int64_t first, std::span<float> out) const;
  // The digest of the whole tensor in global order: equal under every layout.
  Digest DigestOfTensor(const StoredTensor& tensor) const;
  // Checks all data, shard by shard, and goes on after a fault.
  void VerifyData(const std::function<void(const Problem&)>& report) const;
  // Checks that the slices of each tensor hold every element exactly once.
  void VerifyCoverage(const std::function<void(const Problem&)>& report) const;

 private:
  void OpenIndex();
  // An index of what the headers of all shards say.
  void IndexHeaders();
  void CheckIndex() const;
  void ListTensors();
  std::string PathOf(std::int64_t shard) const { return folder_ + "/" + index_->Shard(shard).file; }
  // The file of a shard: the one that was read last stays open, as a rank reads many tensors of few shards.
  std::shared_ptr<const InputFile> FileOf(std::int64_t shard) const;

  std::string folder_;
  Manifest manifest_;
  std::optional<CheckpointIndex> index_;
  std::string index_problem_;
  bool shards_checked_ = false;
  std::vector<StoredTensor> tensors_;
  mutable std::mutex mutex_;
  mutable std::int64_t open_shard_ = -1;
  mutable std::shared_ptr<const InputFile> open_file_;
};

}  // namespace trireme
