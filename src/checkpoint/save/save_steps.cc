#include "checkpoint/save/save_steps.h"

#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>

#include "base/durable_file.h"
#include "base/error.h"
#include "checkpoint/format/shard_writer.h"
#include "checkpoint/read/checkpoint_folder.h"
#include "checkpoint/save/pacer.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kLargestFailure = 64 << 10;

std::string FailurePath(const SaveTask& task, std::int64_t rank) {
  return fmt::format("{}/shard-{:05}.failed-{}", task.unfinished(), rank, task.attempt);
}

ShardHeader HeaderOf(const SaveTask& task, std::span<const SaveSlice> slices) {
  ShardHeader header{.step = task.step,
                     .attempt = task.attempt,
                     .rank = task.rank,
                     .ranks = task.ranks,
                     .device_choices = task.device_choices};
  for (const SaveSlice& slice : slices) {
    header.slices.push_back({.tensor = slice.tensor, .kind = slice.kind, .shape = slice.shape, .pieces = slice.pieces});
  }
  return header;
}

void RequireSpace(const SaveTask& task, const ShardHeader& header) {
  const std::int64_t needed = ShardFileBytes(header);
  const std::int64_t free = FreeBytes(task.unfinished());
  Require(free < 0 || needed <= free, "'{}' needs {} bytes for the shard of rank {}, {} are free", task.folder, needed,
          task.rank, free);
}

// Rank 0's view of one rank's shard: nothing while it is not there yet.
std::optional<ShardHeader> TryShard(const SaveTask& task, std::int64_t rank, ManifestShard& shard) {
  const std::string path = task.shard(rank);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    const std::string failure = FailurePath(task, rank);
    Require(!std::filesystem::exists(failure, error), "rank {}: {}", rank,
            std::filesystem::exists(failure, error) ? ReadWholeFile(failure, kLargestFailure) : "");
    return std::nullopt;
  }
  const ShardBytes bytes = ReadShardBytes(path);
  ShardHeader header = ParseShardHeader(bytes.header, bytes.file, path);
  if (header.step != task.step || header.attempt != task.attempt || header.rank != rank) {
    return std::nullopt;  // left by an earlier save; its owner will replace it
  }
  Require(header.ranks == task.ranks, "'{}' was saved by one of {} ranks, not {}", path, header.ranks, task.ranks);
  shard = {.file = ShardFileName(rank), .bytes = bytes.file, .header = DigestOf(bytes.header)};
  return header;
}

void RequireWritten(const SaveTask& task, const std::string& path) {
  Require(!IsGone(path), "what was written to '{}' has been removed from there", task.unfinished());
}

class Waiting {
 public:
  Waiting(const SaveTask& task, const CommitLimits& limits) : task_(task), limits_(limits), start_(Clock::now()) {}

  // A pause that grows from a millisecond to a tenth of a second; an Error when the shard will not come.
  void Pause(std::int64_t rank) {
    const std::chrono::duration<double> waited = Clock::now() - start_;
    RequireWritten(task_, task_.shard(task_.rank));
    RefuseLost();
    Require(limits_.stop == nullptr || !limits_.stop->load(), "the run ended before the shard of rank {} came", rank);
    Require(waited.count() < limits_.seconds, "the shard of rank {} did not come within {} s", rank, limits_.seconds);
    std::this_thread::sleep_for(pause_);
    pause_ = std::min(pause_ * 2, std::chrono::milliseconds(100));
  }

 private:
  void RefuseLost() const {
    const std::int64_t rank = limits_.lost == nullptr ? -1 : limits_.lost->load();
    if (rank >= 0) {
      ManifestShard shard;
      TryShard(task_, rank, shard);  // an Error with the reason that the rank left, if it could
      Fail("the shard of rank {} has been removed from '{}', or could not be written there", rank, task_.unfinished());
    }
  }

  const SaveTask& task_;
  const CommitLimits& limits_;
  Clock::time_point start_;
  std::chrono::milliseconds pause_{1};
};

// The tensors that shards hold together, each one whole.
class TensorCounter {
 public:
  void Add(const ShardHeader& header, const std::string& file) {
    for (const ShardSlice& slice : header.slices) {
      auto [entry, fresh] = tensors_.try_emplace({slice.kind, slice.tensor}, Entry{.shape = slice.shape});
      Require(fresh || entry->second.shape == slice.shape, "'{}': '{}' has another shape than in other shards", file,
              slice.tensor);
      entry->second.count += slice.count();
    }
  }

  std::vector<ManifestTensor> Tensors() const {
    std::vector<ManifestTensor> all;
    for (const auto& [key, entry] : tensors_) {
      Require(entry.count == entry.shape.count(), "the ranks saved {} elements of '{}' ({}), which has {}", entry.count,
              key.second, key.first, entry.shape.count());
      all.push_back({.name = key.second, .kind = key.first, .shape = entry.shape});
    }
    return all;
  }

 private:
  struct Entry {
    Shape shape;
    std::int64_t count = 0;
  };
  std::map<std::pair<std::string, std::string>, Entry> tensors_;
};

std::string UtcNow() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

void WriteManifest(const SaveTask& task, const Manifest& manifest) {
  const std::string text = FormatManifest(manifest);
  const std::string path = task.unfinished() + "/" + kManifestFile;
  RemoveTree(path);
  DurableFile file(path);
  file.Append(std::string_view(text).substr(0, text.size() / 2));
  task.Reached(SavePoint::kMidManifest);
  file.Append(std::string_view(text).substr(text.size() / 2));
  file.Close();
  SyncDirectory(task.unfinished());
}

// The first folder on the way to that of a save which is not there; empty: all are.
std::string MissingFolder(const SaveTask& task) {
  std::filesystem::path missing;
  for (std::filesystem::path at = task.unfinished(); at.has_relative_path() && IsGone(at); at = at.parent_path()) {
    missing = at;
  }
  return missing.string();
}

// Does `work` in the folder of a save, which is there. Should it be gone when that fails, the Error says so: the call
// that failed for it would say less.
void NamingLostFolder(const SaveTask& task, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    const std::string missing = IsGone(task.finished()) ? MissingFolder(task) : "";  // or it has its final name
    Require(missing.empty(), "'{}' was removed while the checkpoint was being written to it ({})", missing,
            error.what());
    throw;
  }
}

void WriteShardFile(const SaveTask& task, std::span<const SaveSlice> slices) {
  const ShardHeader header = HeaderOf(task, slices);
  RequireSpace(task, header);
  const std::string path = task.shard(task.rank);
  const std::string part = path + ".part";
  RemoveTree(part);
  task.Reached(SavePoint::kOpen);
  ShardWriter writer(part, header);
  Pacer pacer(task.hurry);
  writer.set_on_chunk([&pacer] { pacer.Rest(); });
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (i == slices.size() / 2) {
      task.Reached(SavePoint::kMidShard);
    }
    writer.Append(slices[i].values);
  }
  writer.WriteHeader();
  task.Reached(SavePoint::kBeforeSync);
  writer.Sync();
  task.Reached(SavePoint::kAfterSync);
  RequireWritten(task, part);
  if (task.read_back) {
    writer.VerifyWritten();
  }
  MoveIntoPlace(part, path);
}

std::int64_t Commit(const SaveTask& task, const RunState& state, const CommitLimits& limits) {
  Manifest manifest{.state = state};
  manifest.state.saved_at = UtcNow();
  TensorCounter counter;
  Waiting waiting(task, limits);
  std::int64_t bytes = 0;
  for (std::int64_t rank = 0; rank < task.ranks; ++rank) {
    ManifestShard shard;
    std::optional<ShardHeader> header = TryShard(task, rank, shard);
    while (!header) {
      waiting.Pause(rank);
      header = TryShard(task, rank, shard);
    }
    counter.Add(*header, shard.file);
    bytes += shard.bytes;
    manifest.shards.push_back(std::move(shard));
  }
  manifest.tensors = counter.Tensors();
  task.Reached(SavePoint::kBeforeManifest);
  WriteManifest(task, manifest);
  task.Reached(SavePoint::kBeforeRename);
  for (std::int64_t rank = 0; rank < task.ranks; ++rank) {
    Require(!IsGone(task.shard(rank)), "the shard of rank {} has been removed from '{}'", rank, task.unfinished());
  }
  // A run may save a step again; a command never replaces a checkpoint.
  task.temporary.empty() ? MoveIntoPlace(task.unfinished(), task.finished())
                         : MoveToFreeName(task.unfinished(), task.finished());
  task.Reached(SavePoint::kAfterRename);
  return bytes;
}

}  // namespace

std::string Name(SavePoint point) {
  static constexpr const char* kNames[kSavePoints] = {
      "snapshot",        "open",         "mid-shard",     "before-sync",  "after-sync",
      "before-manifest", "mid-manifest", "before-rename", "after-rename", "prune"};
  return kNames[static_cast<std::size_t>(point)];
}

std::string SaveTask::finished() const { return folder + "/" + StepFolderName(step); }
std::string SaveTask::unfinished() const { return temporary.empty() ? finished() + ".tmp" : temporary; }
std::string SaveTask::shard(std::int64_t of_rank) const { return unfinished() + "/" + ShardFileName(of_rank); }

void WriteShard(const SaveTask& task, std::span<const SaveSlice> slices) {
  MakeDirectories(task.unfinished());
  std::error_code error;
  Require(!std::filesystem::is_symlink(std::filesystem::symlink_status(task.unfinished(), error)),
          "'{}' is a symbolic link, which no save follows", task.unfinished());
  NamingLostFolder(task, [&] { WriteShardFile(task, slices); });
}

bool LeaveFailure(const SaveTask& task, const std::string& message) {
  // Rank 0 may be removing the folder at this moment, and other ranks may be making it anew.
  constexpr int kTries = 5;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    try {
      const std::string path = FailurePath(task, task.rank);
      std::error_code ignored;
      std::filesystem::create_directories(task.unfinished(), ignored);
      RemoveTree(path + ".part");
      DurableFile file(path + ".part");
      file.Append(std::string_view(message).substr(0, kLargestFailure));
      file.Close();
      MoveIntoPlace(path + ".part", path);
      return true;
    } catch (const Error&) {
    }
  }
  return false;
}

std::int64_t CommitCheckpoint(const SaveTask& task, const RunState& state, const CommitLimits& limits) {
  std::int64_t bytes = 0;
  NamingLostFolder(task, [&] { bytes = Commit(task, state, limits); });
  return bytes;
}

}  // namespace trireme
