// The folder that holds a run's checkpoints: step-000100, step-000200, …; a name that ends in .tmp is not one yet, or
// no longer. No file points at the newest: it is the highest step that proves itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"

namespace trireme {

struct StepFolder {
  std::int64_t step = 0;
  std::string path;
};

std::string StepFolderName(std::int64_t step);
// Complete ones by name, highest step first; nothing is opened. Empty when `folder` does not exist.
std::vector<StepFolder> ListCheckpoints(const std::string& folder);

struct FoundCheckpoint {
  StepFolder checkpoint;
  std::vector<std::string> refused;  // one line for each newer folder that did not prove itself
};
// The newest whose manifest, shard sizes and shard headers verify, at or below `at_most`. The data itself is verified
// as it is read. `refused` is filled even when nothing is found.
std::optional<FoundCheckpoint> FindNewest(const std::string& folder, std::int64_t at_most = INT64_MAX,
                                          std::vector<std::string>* refused = nullptr);

struct FoundManifest {
  StepFolder checkpoint;
  Manifest manifest;
};
// The newest whose manifest verifies; opens no shard.
std::optional<FoundManifest> FindNewestManifest(const std::string& folder);

// Removes what unfinished saves and prunings of steps below `below` left. A checkpoint that a crash left under
// kReplacedSuffix, while a new save of its step was taking its name, gets its name back first. Only while no rank saves
// those steps here.
void RemoveUnfinished(const std::string& folder, std::int64_t below = INT64_MAX);
// Keeps the newest `keep` (at least 1) whose manifests verify and everything newer than the oldest of them, and removes
// what is older. A folder loses its name before its content, so that a kill leaves no half of a checkpoint. kByRanks:
// it loses its name alone, each rank removes its part with RemovePrunedPart, and RemoveUnfinished what is left.
// Returns the steps removed.
enum class Removal : std::uint8_t { kNow, kByRanks };
std::vector<std::int64_t> PruneCheckpoints(const std::string& folder, std::int64_t keep,
                                           Removal removal = Removal::kNow);
// Removes shards rank, rank + ranks, … of checkpoints that have been pruned, as far as there are such; fails silently.
void RemovePrunedPart(const std::string& folder, std::int64_t rank, std::int64_t ranks);

// The checkpoint that a person means by `path`: a checkpoint's own folder, or the newest good one of a run's folder or
// of its checkpoints/. An Error says what was looked for.
std::string ResolveCheckpoint(const std::string& path);
// All checkpoints of a run, good or not, newest first.
std::vector<std::string> ResolveAllCheckpoints(const std::string& path);

}  // namespace trireme
