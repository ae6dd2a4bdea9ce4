#include "checkpoint/save/save_steps.h"

#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "base/durable_file.h"
#include "base/error.h"
#include "checkpoint/format/checkpoint_index.h"
#include "checkpoint/format/shard_writer.h"
#include "checkpoint/read/checkpoint_folder.h"
#include "checkpoint/save/pacer.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kLargestFailure = 64 << 10;
constexpr std::int64_t kLargestGroupIndex = std::int64_t{4} << 30;
// Groups give up before rank 0 does, so that it can name the rank that they waited for.
constexpr double kPatienceOfGroups = 0.9;

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

std::string GroupIndexPath(const SaveTask& task, std::int64_t first) {
  return fmt::format("{}/group-{:05}.index", task.unfinished(), first);
}

// An Error with the reason that the rank left, if it has.
void RefuseFailed(const SaveTask& task, std::int64_t rank) {
  const std::string failure = FailurePath(task, rank);
  std::error_code error;
  if (std::filesystem::exists(failure, error)) {
    const std::string reason = ReadWholeFile(failure, kLargestFailure);
    // The first rank of a group passes on what one of its ranks said.
    Fail("{}{}", reason.starts_with("rank ") ? "" : fmt::format("rank {}: ", rank), reason);
  }
}

// The view of one rank's shard from another: nothing while it is not there yet.
std::optional<ShardHeader> TryShard(const SaveTask& task, std::int64_t rank, ManifestShard& shard) {
  const std::string path = task.shard(rank);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    RefuseFailed(task, rank);
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

// The index of the shards of a group: nothing while it is not there yet.
std::optional<CheckpointIndex> TryGroup(const SaveTask& task, std::int64_t first) {
  const std::string path = GroupIndexPath(task, first);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    RefuseFailed(task, first);
    return std::nullopt;
  }
  CheckpointIndex index(std::make_shared<const std::string>(ReadWholeFile(path, kLargestGroupIndex)), path);
  index.CheckDigest();
  const bool mine = index.step() == task.step && index.attempt() == task.attempt && index.first_shard() == first;
  return mine ? std::optional(std::move(index)) : std::nullopt;  // as a shard that an earlier save left
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

// Shards of ranks [first, first + span) as far as there are so many, collected by rank `first`; span is a power of
// kCommitFan. Groups within are collected by their own first ranks.
class ShardCollector {
 public:
  ShardCollector(const SaveTask& task, const CommitLimits& limits, std::int64_t first)
      : task_(task), waiting_(task, limits), builder_(task.step, first == 0 ? 0 : task.attempt, first) {}

  CheckpointIndexBuilder& CollectAlone() {
    for (std::int64_t rank = 0; rank < task_.ranks; ++rank) {
      TakeShard(rank);
    }
    return builder_;
  }

  CheckpointIndexBuilder& Collect(std::int64_t first, std::int64_t span) {
    if (span == 1) {
      TakeShard(first);
      return builder_;
    }
    const std::int64_t part = span / kCommitFan;
    Collect(first, part);
    for (std::int64_t next = first + part; next < std::min(first + span, task_.ranks); next += part) {
      part == 1 ? TakeShard(next) : TakeGroup(next);
    }
    return builder_;
  }

  // Files that are used up once what they say is written elsewhere.
  const std::vector<std::string>& group_files() const { return group_files_; }

 private:
  void TakeShard(std::int64_t rank) {
    ManifestShard shard;
    std::optional<ShardHeader> header = TryShard(task_, rank, shard);
    while (!header) {
      waiting_.Pause(rank);
      header = TryShard(task_, rank, shard);
    }
    builder_.AddShard(shard, std::move(*header));
  }

  void TakeGroup(std::int64_t first) {
    std::optional<CheckpointIndex> group = TryGroup(task_, first);
    while (!group) {
      waiting_.Pause(first);
      group = TryGroup(task_, first);
    }
    builder_.AddPart(*group);
    group_files_.push_back(GroupIndexPath(task_, first));
  }

  const SaveTask& task_;
  Waiting waiting_;
  CheckpointIndexBuilder builder_;
  std::vector<std::string> group_files_;
};

void RemoveFiles(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    RemoveTree(path);
  }
}

// Ranks of the largest group that `rank` indexes; 1: none.
std::int64_t SpanOf(std::int64_t rank, std::int64_t ranks) {
  std::int64_t span = 1;
  while (rank % (span * kCommitFan) == 0 && span < ranks) {
    span *= kCommitFan;
  }
  return span;
}

std::string UtcNow() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

ManifestIndex WriteIndex(const SaveTask& task, const CheckpointIndexBuilder& builder) {
  const std::string bytes = builder.Format();
  const std::string path = task.unfinished() + "/" + kIndexFile;
  RemoveTree(path);
  DurableFile file(path);
  file.Append(bytes);
  file.Close();
  return {.bytes = static_cast<std::int64_t>(bytes.size()), .digest = DigestOf(bytes)};
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

// Names of the files in the folder of a save; an Error when one of the shards is not there.
void RequireAllShards(const SaveTask& task) {
  std::set<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(task.unfinished(), error), end; !error && it != end;
       it.increment(error)) {
    names.insert(it->path().filename().string());
  }
  for (std::int64_t rank = 0; !error && rank < task.ranks; ++rank) {
    Require(names.count(ShardFileName(rank)) > 0, "the shard of rank {} has been removed from '{}'", rank,
            task.unfinished());
  }
}

std::int64_t Commit(const SaveTask& task, const RunState& state, const CommitLimits& limits) {
  Manifest manifest{.state = state};
  manifest.state.saved_at = UtcNow();
  ShardCollector collector(task, limits, 0);
  const CheckpointIndexBuilder& builder =
      limits.groups ? collector.Collect(0, SpanOf(0, task.ranks)) : collector.CollectAlone();
  manifest.shards = builder.shards();
  manifest.tensors = builder.WholeTensors();
  std::int64_t bytes = 0;
  for (const ManifestShard& shard : manifest.shards) {
    bytes += shard.bytes;
  }
  task.Reached(SavePoint::kBeforeManifest);
  RemoveFiles(collector.group_files());
  manifest.index = WriteIndex(task, builder);
  WriteManifest(task, manifest);
  task.Reached(SavePoint::kBeforeRename);
  RequireAllShards(task);
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

bool IndexesGroup(std::int64_t rank, std::int64_t ranks) { return rank > 0 && SpanOf(rank, ranks) > 1; }

void WriteGroupIndex(const SaveTask& task, const CommitLimits& limits) {
  NamingLostFolder(task, [&] {
    CommitLimits group = limits;
    group.seconds *= kPatienceOfGroups;
    const std::string path = GroupIndexPath(task, task.rank);
    ShardCollector collector(task, group, task.rank);
    const std::string bytes = collector.Collect(task.rank, SpanOf(task.rank, task.ranks)).Format();
    RemoveTree(path + ".part");
    DurableFile file(path + ".part");
    file.Append(bytes);
    file.Close();
    MoveIntoPlace(path + ".part", path);
    RemoveFiles(collector.group_files());
  });
}

std::int64_t CommitCheckpoint(const SaveTask& task, const RunState& state, const CommitLimits& limits) {
  std::int64_t bytes = 0;
  NamingLostFolder(task, [&] { bytes = Commit(task, state, limits); });
  return bytes;
}

}  // namespace trireme
