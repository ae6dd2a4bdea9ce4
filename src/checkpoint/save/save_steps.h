// The steps of one save, as each rank takes them: every rank writes and syncs its shard into step-N.tmp; rank 0 then
// waits for all shards, or for the indices of groups of them, writes index and manifest, and renames the folder. Where
// one file is to hold the state of several ranks, each writes a part of its own, and the first of them joins the parts.
// Ranks meet in the file system alone, so that thread ranks and processes on many machines do the same. All functions
// throw an Error and leave cleaning up to the caller.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/shape.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/shard_header.h"

namespace trireme {

// Where a test may stop a save. In the order of time.
enum class SavePoint : std::uint8_t {
  kSnapshot,
  kOpen,
  kMidShard,
  kBeforeSync,
  kAfterSync,
  kBeforeManifest,
  kMidManifest,
  kBeforeRename,
  kAfterRename,
  kPrune,
};
inline constexpr int kSavePoints = 10;
std::string Name(SavePoint point);
using SaveHook = std::function<void(SavePoint)>;

// A slice to save: `values` in the order of the pieces.
struct SaveSlice {
  std::string tensor;
  std::string kind;
  Shape shape;  // of the whole parameter
  std::vector<SlicePiece> pieces;
  std::span<const float> values;
};

struct SaveTask {
  std::string folder;  // of all checkpoints
  std::int64_t step = 0;
  std::int64_t attempt = 0;
  std::int64_t rank = 0;
  std::int64_t ranks = 1;
  std::int64_t ranks_per_file = 1;  // consecutive ranks whose state one shard holds
  std::string device_choices = {};  // of this rank, for its shard
  bool read_back = true;            // compare what the disk has with what was written, before the shard counts
  SaveHook hook;                    // may be empty
  // Where the save is written before it has its name; empty: step-N.tmp, where ranks meet.
  std::string temporary = {};
  // Given: the shard is written at half speed while this is false.
  const std::atomic<bool>* hurry = nullptr;

  std::string unfinished() const;  // `temporary`, or folder/step-N.tmp
  std::string finished() const;    // folder/step-N
  std::int64_t files() const { return CeilDiv(ranks, ranks_per_file); }
  std::int64_t file() const { return rank / ranks_per_file; }  // the shard of this rank
  bool leads() const { return rank % ranks_per_file == 0; }    // its first rank
  std::string shard(std::int64_t of_file) const;               // where rank 0 looks for it
  std::string part(std::int64_t of_rank) const;                // what a rank writes: its shard, or a part of it
  void Reached(SavePoint point) const {
    if (hook) {
      hook(point);
    }
  }
};

// Writes this rank's shard, or its part of one; it has its final name only when it is whole and on the disk.
void WriteShard(const SaveTask& task, std::span<const SaveSlice> slices);
// Tells rank 0 why this rank's shard will not come. False when even that cannot be written.
bool LeaveFailure(const SaveTask& task, const std::string& message);

// Shards that one rank collects. Of more shards each group of so many has its first rank index them, of more than their
// square each group of groups, …, so that no rank opens more than a few dozen files, however many ranks there are.
inline constexpr std::int64_t kCommitFan = 32;

struct CommitLimits {
  double seconds = 1800;                            // how long a rank waits for the shards of others
  const std::atomic<bool>* stop = nullptr;          // true: stop waiting
  const std::atomic<std::int64_t>* lost = nullptr;  // a rank whose shard will not come; below 0: none is known
  bool groups = true;  // false: one process has written all shards, no rank indexes a group
};
// The first rank of a shard that holds several, after its own WriteShard: waits for the parts of the others, checks and
// copies them into the shard, and removes them. Errors as CommitCheckpoint's.
void JoinParts(const SaveTask& task, const CommitLimits& limits);
// Whether the task's rank is the first of a group whose shards it indexes; rank 0 commits instead.
bool IndexesGroup(const SaveTask& task);
// Such a rank, after its own shard is there: waits for the shards of its group and writes the index of them for the
// rank that collects it. Errors as CommitCheckpoint's.
void WriteGroupIndex(const SaveTask& task, const CommitLimits& limits);
// Rank 0, after its own shard is there: waits for all shards, checks that together they hold each tensor once,
// writes the manifest and renames. Returns the bytes of all shards. An Error, and no more waiting, when a user has
// removed the folder.
std::int64_t CommitCheckpoint(const SaveTask& task, const RunState& state, const CommitLimits& limits);

}  // namespace trireme
