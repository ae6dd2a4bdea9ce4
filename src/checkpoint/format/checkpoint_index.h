// The file of a checkpoint that maps tensors to shards: which shard holds which elements of which tensor, at which
// byte, with which digests. A rank that has it opens the shards it reads and no others. Words of 64 bits,
// little-endian, so that a rank decodes the slices it asks for and skips the rest; docs/reference/checkpoint_format.md
// lists them. Groups of ranks that save write parts of it, which rank 0 joins.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/format/shard_header.h"

namespace trireme {

// A slice of a tensor in one shard file.
struct StoredSlice {
  std::int64_t shard = 0;  // number of the shard in the checkpoint
  ShardSlice slice;
};

// Elements [low, high) of a flattened tensor.
struct ElementRange {
  std::int64_t low = 0;
  std::int64_t high = INT64_MAX;
};

class CheckpointIndex {
 public:
  // Refers to bytes [begin, end of *file) and keeps them. Checks that the sections fill them; each value is checked
  // when it is asked for. An Error names `origin`.
  CheckpointIndex(std::shared_ptr<const std::string> file, std::string origin, std::size_t begin = 0);

  // An Error unless the digest that ends the file is that of its bytes.
  void CheckDigest() const;

  std::int64_t step() const { return Head(kStep); }
  std::int64_t attempt() const { return Head(kAttempt); }
  std::int64_t first_shard() const { return Head(kFirstShard); }  // 0 unless this is a part
  std::int64_t shards() const { return Head(kShards); }
  std::int64_t tensors() const { return Head(kTensors); }
  std::string_view bytes() const;

  // `shard` counts from first_shard().
  ManifestShard Shard(std::int64_t shard) const;
  std::string DeviceChoices(std::int64_t shard) const;
  // Sorted by kind, then name.
  ManifestTensor Tensor(std::int64_t tensor) const;
  // Slices of a tensor that may hold some of its elements in `range`, by their first element.
  std::vector<StoredSlice> Slices(std::int64_t tensor, const ElementRange& range = {}) const;

 private:
  friend class CheckpointIndexBuilder;
  enum HeadWord : std::uint8_t {
    kMagic,
    kVersion,
    kStep,
    kAttempt,
    kFirstShard,
    kShards,
    kTensors,
    kSlices,
    kPieces,
    kChunks,
    kText,
    kHeadWords,
  };
  static constexpr std::int64_t kShardWords = 7;  // name, its length, bytes, header's digest (2), choices, their length
  static constexpr std::int64_t kTensorWords =
      10;                                         // name, its length, kind, its length, rank, extents (4), first slice
  static constexpr std::int64_t kSliceWords = 7;  // shard, offset, low, high, reach, first piece, first chunk
  static constexpr std::int64_t kPieceWords = 4;
  static constexpr std::int64_t kChunkWords = 2;

  std::uint64_t Word(std::int64_t word) const;
  // A count: at most 2^53.
  std::int64_t Count(std::int64_t word) const;
  std::int64_t Head(HeadWord word) const { return Count(word); }
  std::string Text(std::int64_t word) const;
  std::int64_t SliceCount(std::int64_t slice, std::int64_t field) const {
    return Count(slices_at_ + slice * kSliceWords + field);
  }
  ShardSlice DecodeSlice(std::int64_t slice, const ManifestTensor& about) const;

  std::shared_ptr<const std::string> file_;
  std::string origin_;
  std::size_t begin_ = 0;
  // Where sections begin, in words.
  std::int64_t shards_at_ = kHeadWords;
  std::int64_t tensors_at_ = 0;
  std::int64_t slices_at_ = 0;
  std::int64_t pieces_at_ = 0;
  std::int64_t chunks_at_ = 0;
  std::int64_t text_at_ = 0;
};

class IndexWriter;

// Collects what shards hold and writes the index of it.
class CheckpointIndexBuilder {
 public:
  CheckpointIndexBuilder(std::int64_t step, std::int64_t attempt, std::int64_t first_shard = 0)
      : step_(step), attempt_(attempt), first_shard_(first_shard) {}

  // The next shard. An Error when it has a tensor under another shape than shards before.
  void AddShard(const ManifestShard& shard, ShardHeader header);
  // The next shards.
  void AddPart(const CheckpointIndex& part);

  // Tensors that no shard holds a part of.
  void AddAbsent(const std::vector<ManifestTensor>& tensors);

  const std::vector<ManifestShard>& shards() const { return shards_; }
  // Sorted by kind, then name; an Error unless the shards hold as many elements of each as it has.
  std::vector<ManifestTensor> WholeTensors() const;
  std::string Format() const;

 private:
  struct Entry {
    Shape shape;
    std::vector<StoredSlice> slices;
  };
  void AddSlice(std::int64_t shard, ShardSlice slice, const std::string& origin);
  void PutShards(IndexWriter& writer) const;
  // Slices of all tensors in the order of the index.
  std::vector<const StoredSlice*> PutTensors(IndexWriter& writer) const;
  void PutSlices(IndexWriter& writer, const std::vector<const StoredSlice*>& ordered) const;

  std::int64_t step_ = 0;
  std::int64_t attempt_ = 0;
  std::int64_t first_shard_ = 0;
  std::vector<ManifestShard> shards_;
  std::vector<std::string> choices_;                              // by shard
  std::map<std::pair<std::string, std::string>, Entry> tensors_;  // by kind and name
};

}  // namespace trireme
