// The file that makes a folder a checkpoint: written last, it names the run's state outside tensors, every tensor with
// its global shape, and every shard with its size and the digest of its header (which holds the digests of the data).
// Its own last member is a digest of all bytes before it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/checksum.h"
#include "base/shape.h"
#include "model/model_config.h"
#include "run/run_config.h"
#include "run/run_schedule.h"

namespace trireme {

// Everything of a run's state that is no tensor. Random numbers and the order of the data are functions of the
// configuration, the seed and the samples consumed, and need nothing more.
// Saves before November 2026 do not say how many tokens were consumed: reading counts all samples as long as the
// recipe's.
struct RunState : RunPosition {
  std::int64_t updates = 0;  // steps that were not skipped: the optimizer's own count
  double loss_scale = 1;
  // Where batch size, learning rate and end of the run stand; version 1 of the format has no such member.
  std::optional<ScheduleState> schedule;
  std::int64_t seed = 0;
  std::string program = "trireme 0.1.0";
  std::string saved_at;  // UTC, "2026-01-31T12:00:00Z"
  std::string layout;    // in words; loading does not need it
  std::int64_t ranks = 1;
  ModelConfig model;
  std::string recipe;          // TOML of the whole configuration
  std::vector<KeyValue> keys;  // the same, flattened: what a resume compares
  std::map<std::string, std::string>
      notes;  // chosen kernels, the scaler's counters: whatever the trainer must find again
};

struct ManifestTensor {
  std::string name;
  std::string kind;
  Shape shape;
  bool operator==(const ManifestTensor&) const = default;
};

struct ManifestShard {
  std::string file;
  std::int64_t bytes = 0;
  Digest header;
  bool operator==(const ManifestShard&) const = default;
};

// The file that maps tensors to shards, checkpoint_index.h.
struct ManifestIndex {
  std::int64_t bytes = 0;
  Digest digest;
  bool operator==(const ManifestIndex&) const = default;
};

struct Manifest {
  RunState state;
  std::vector<ManifestTensor> tensors;  // sorted by (kind, name)
  std::vector<ManifestShard> shards;    // by rank
  std::optional<ManifestIndex> index;   // none in checkpoints of versions 1 and 2
};

inline constexpr char kManifestFile[] = "manifest.json";
inline constexpr char kIndexFile[] = "index.bin";

std::string FormatManifest(const Manifest& manifest);
// kLeftOut: text that is no file of a checkpoint; its list of shards may be empty.
enum class ShardList : std::uint8_t { kWhole, kLeftOut };
// Checks the digest first. `origin` names the file in errors.
Manifest ParseManifest(std::string_view text, const std::string& origin, ShardList shards = ShardList::kWhole);
// The manifest of a checkpoint's folder.
Manifest ReadManifest(const std::string& folder);

}  // namespace trireme
