#include "checkpoint/read/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/durable_file.h"
#include "base/error.h"
#include "checkpoint/format/shard_header.h"
#include "checkpoint/read/checkpoint_reader.h"

namespace trireme {
namespace {

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kUnfinished = ".tmp";
constexpr std::string_view kPruned = ".pruned.tmp";

// The step of a folder's name; nothing when it is not one that StepFolderName makes.
std::optional<std::int64_t> StepOf(const std::string& name) {
  std::int64_t step = 0;
  if (!name.starts_with(kPrefix)) {
    return std::nullopt;
  }
  const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  const bool whole = error == std::errc() && end == name.data() + name.size() && StepFolderName(step) == name;
  return whole ? std::optional(step) : std::nullopt;
}

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  return names;
}

bool HasManifest(const std::string& folder) {
  std::error_code error;
  return std::filesystem::exists(folder + "/" + kManifestFile, error);
}

bool Verifies(const std::string& folder) {
  try {
    ReadManifest(folder);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Where the checkpoints of what a person named are.
std::string CheckpointsUnder(const std::string& path) {
  const std::string inner = path + "/checkpoints";
  return ListCheckpoints(path).empty() && std::filesystem::is_directory(inner) ? inner : path;
}

bool IsStepFolder(const std::string& path) {
  return StepOf(std::filesystem::path(path).lexically_normal().filename().string()).has_value() || HasManifest(path);
}

}  // namespace

std::string StepFolderName(std::int64_t step) { return fmt::format("step-{:06}", step); }

std::vector<StepFolder> ListCheckpoints(const std::string& folder) {
  std::vector<StepFolder> found;
  for (const std::string& name : NamesIn(folder)) {
    const auto step = StepOf(name);
    std::error_code error;
    if (step && std::filesystem::is_directory(std::filesystem::symlink_status(folder + "/" + name, error))) {
      found.push_back({.step = *step, .path = folder + "/" + name});
    }
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.step > b.step; });
  return found;
}

std::optional<FoundCheckpoint> FindNewest(const std::string& folder, std::int64_t at_most,
                                          std::vector<std::string>* refused) {
  std::vector<std::string> reasons;
  std::optional<FoundCheckpoint> found;
  for (const StepFolder& candidate : ListCheckpoints(folder)) {
    if (candidate.step > at_most) {
      continue;
    }
    try {
      const CheckpointReader reader(candidate.path);
      found = FoundCheckpoint{.checkpoint = candidate, .refused = reasons};
      break;
    } catch (const Error& error) {
      reasons.push_back(fmt::format("checkpoint of step {} is not used: {}", candidate.step, error.what()));
    }
  }
  if (refused != nullptr) {
    *refused = reasons;
  }
  return found;
}

std::optional<FoundManifest> FindNewestManifest(const std::string& folder) {
  for (const StepFolder& candidate : ListCheckpoints(folder)) {
    try {
      return FoundManifest{.checkpoint = candidate, .manifest = ReadManifest(candidate.path)};
    } catch (const Error&) {  // the next older one
    }
  }
  return std::nullopt;
}

void RestoreReplaced(const std::string& folder) {
  for (const std::string& name : NamesIn(folder)) {
    const std::size_t dot = name.find('.');
    if (dot == std::string::npos || name.substr(dot) != kReplacedSuffix || !StepOf(name.substr(0, dot))) {
      continue;
    }
    const std::string aside = folder + "/" + name;
    const std::string place = folder + "/" + name.substr(0, dot);
    if (IsGone(place) && Verifies(aside)) {
      MoveToFreeName(aside, place);
    }
  }
}

void RemoveUnfinished(const std::string& folder, std::int64_t below) {
  RestoreReplaced(folder);
  for (const std::string& name : NamesIn(folder)) {
    const std::optional<std::int64_t> step = StepOf(name.substr(0, name.find('.')));
    if (step && *step < below && name.ends_with(kUnfinished)) {
      RemoveTree(folder + "/" + name);
    }
  }
}

std::vector<std::int64_t> PruneCheckpoints(const std::string& folder, std::int64_t keep, Removal removal) {
  std::vector<std::int64_t> removed;
  std::int64_t good = 0;
  for (const StepFolder& checkpoint : ListCheckpoints(folder)) {
    if (good < std::max<std::int64_t>(keep, 1)) {
      good += Verifies(checkpoint.path) ? 1 : 0;
      continue;
    }
    const std::string doomed = checkpoint.path + std::string(kPruned);
    RemoveTree(doomed);
    MoveIntoPlace(checkpoint.path, doomed);
    if (removal == Removal::kNow) {
      RemoveTree(doomed);
    }
    removed.push_back(checkpoint.step);
  }
  return removed;
}

void RemovePrunedPart(const std::string& folder, std::int64_t rank, std::int64_t ranks) {
  for (const std::string& name : NamesIn(folder)) {
    if (!name.ends_with(kPruned) || !StepOf(name.substr(0, name.find('.')))) {
      continue;
    }
    std::error_code error;
    for (std::int64_t shard = rank;
         std::filesystem::remove(folder + "/" + name + "/" + ShardFileName(shard), error) && !error; shard += ranks) {
    }
  }
}

std::string ResolveCheckpoint(const std::string& path) {
  Require(std::filesystem::is_directory(path), "'{}' is no folder: a checkpoint or a run was expected", path);
  if (IsStepFolder(path)) {
    return path;
  }
  const std::string folder = CheckpointsUnder(path);
  std::vector<std::string> refused;
  const auto found = FindNewest(folder, INT64_MAX, &refused);
  std::string why;
  for (const std::string& line : refused) {
    why += "; " + line;
  }
  Require(found.has_value(), "'{}' holds no good checkpoint (a folder such as {} with a {}){}", folder,
          StepFolderName(100), kManifestFile, why);
  return found->checkpoint.path;
}

std::vector<std::string> ResolveAllCheckpoints(const std::string& path) {
  Require(std::filesystem::is_directory(path), "'{}' is no folder: a checkpoint or a run was expected", path);
  if (IsStepFolder(path)) {
    return {path};
  }
  std::vector<std::string> paths;
  for (const StepFolder& checkpoint : ListCheckpoints(CheckpointsUnder(path))) {
    paths.push_back(checkpoint.path);
  }
  Require(!paths.empty(), "'{}' holds no checkpoint (a folder such as {} with a {})", path, StepFolderName(100),
          kManifestFile);
  return paths;
}

}  // namespace trireme
