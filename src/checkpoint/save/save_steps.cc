#include "checkpoint/save/save_steps.h"

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "base/durable_file.h"
#include "base/error.h"
#include "checkpoint/format/checkpoint_index.h"
#include "checkpoint/format/shard_writer.h"
#include "checkpoint/read/checkpoint_folder.h"
#include "checkpoint/save/pacer.h"
#include "checkpoint/save/shard_wait.h"

namespace trireme {
namespace {

constexpr std::int64_t kLargestGroupIndex = std::int64_t{4} << 30;

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

std::string GroupIndexPath(const SaveTask& task, std::int64_t first) {
  return fmt::format("{}/group-{:05}.index", task.unfinished(), first);
}

// The view of one shard from another rank: nothing while it is not there yet.
std::optional<ShardHeader> TryShard(const SaveTask& task, std::int64_t file, ManifestShard& shard) {
  const std::string path = task.shard(file);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    RefuseFailed(task, file * task.ranks_per_file);
    return std::nullopt;
  }
  const ShardBytes bytes = ReadShardBytes(path);
  ShardHeader header = ParseShardHeader(bytes.header, bytes.file, path);
  if (header.step != task.step || header.attempt != task.attempt || header.rank != file) {
    return std::nullopt;  // left by an earlier save; its owner will replace it
  }
  Require(header.ranks == task.files(), "'{}' is one of {} shards, not of {}", path, header.ranks, task.files());
  shard = {.file = ShardFileName(file), .bytes = bytes.file, .header = DigestOf(bytes.header)};
  return header;
}

// The index of the shards of a group: nothing while it is not there yet.
std::optional<CheckpointIndex> TryGroup(const SaveTask& task, std::int64_t first) {
  const std::string path = GroupIndexPath(task, first);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    RefuseFailed(task, first * task.ranks_per_file);
    return std::nullopt;
  }
  CheckpointIndex index(std::make_shared<const std::string>(ReadWholeFile(path, kLargestGroupIndex)), path);
  index.CheckDigest();
  const bool mine = index.step() == task.step && index.attempt() == task.attempt && index.first_shard() == first;
  return mine ? std::optional(std::move(index)) : std::nullopt;  // as a shard that an earlier save left
}

// Shards [first, first + span) as far as there are so many, collected by the first rank of shard `first`; span is a
// power of kCommitFan. Groups within are collected by their own first ranks.
class ShardCollector {
 public:
  ShardCollector(const SaveTask& task, const CommitLimits& limits)
      : task_(task),
        wait_(task, task.shard(task.file()), limits),
        builder_(task.step, task.file() == 0 ? 0 : task.attempt, task.file()) {}

  CheckpointIndexBuilder& CollectAlone() {
    for (std::int64_t file = 0; file < task_.files(); ++file) {
      TakeShard(file);
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
    for (std::int64_t next = first + part; next < std::min(first + span, task_.files()); next += part) {
      part == 1 ? TakeShard(next) : TakeGroup(next);
    }
    return builder_;
  }

  // Files that are used up once what they say is written elsewhere.
  const std::vector<std::string>& group_files() const { return group_files_; }

 private:
  void TakeShard(std::int64_t file) {
    ManifestShard shard;
    std::optional<ShardHeader> header = TryShard(task_, file, shard);
    while (!header) {
      wait_.Pause(file * task_.ranks_per_file);
      header = TryShard(task_, file, shard);
    }
    builder_.AddShard(shard, std::move(*header));
  }

  void TakeGroup(std::int64_t first) {
    std::optional<CheckpointIndex> group = TryGroup(task_, first);
    while (!group) {
      wait_.Pause(first * task_.ranks_per_file);
      group = TryGroup(task_, first);
    }
    builder_.AddPart(*group);
    group_files_.push_back(GroupIndexPath(task_, first));
  }

  const SaveTask& task_;
  ShardWait wait_;
  CheckpointIndexBuilder builder_;
  std::vector<std::string> group_files_;
};

// Shards of the largest group that the first rank of shard `file` indexes; 1: none.
std::int64_t SpanOf(std::int64_t file, std::int64_t files) {
  std::int64_t span = 1;
  while (file % (span * kCommitFan) == 0 && span < files) {
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

void WriteShardFile(const SaveTask& task, std::span<const SaveSlice> slices) {
  const ShardHeader header = HeaderOf(task, slices);
  RequireSpace(task, header);
  const std::string path = task.part(task.rank);
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
  for (std::int64_t file = 0; !error && file < task.files(); ++file) {
    Require(names.count(ShardFileName(file)) > 0, "the shard of rank {} has been removed from '{}'",
            file * task.ranks_per_file, task.unfinished());
  }
}

std::int64_t Commit(const SaveTask& task, const RunState& state, const CommitLimits& limits) {
  Manifest manifest{.state = state};
  manifest.state.saved_at = UtcNow();
  ShardCollector collector(task, limits);
  const CheckpointIndexBuilder& builder =
      limits.groups ? collector.Collect(0, SpanOf(0, task.files())) : collector.CollectAlone();
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
std::string SaveTask::shard(std::int64_t of_file) const { return unfinished() + "/" + ShardFileName(of_file); }
std::string SaveTask::part(std::int64_t of_rank) const {
  return ranks_per_file == 1 ? shard(of_rank) : fmt::format("{}/rank-{:05}.safetensors", unfinished(), of_rank);
}

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

bool IndexesGroup(const SaveTask& task) {
  return task.leads() && task.rank > 0 && SpanOf(task.file(), task.files()) > 1;
}

void WriteGroupIndex(const SaveTask& task, const CommitLimits& limits) {
  NamingLostFolder(task, [&] {
    CommitLimits group = limits;
    group.seconds *= kPatienceOfGroups;
    const std::string path = GroupIndexPath(task, task.file());
    ShardCollector collector(task, group);
    const std::string bytes = collector.Collect(task.file(), SpanOf(task.file(), task.files())).Format();
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
