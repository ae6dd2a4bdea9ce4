#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/durable_file.h"
#include "base/error.h"
#include "checkpoint/format/rank_choices.h"
#include "checkpoint/format/shard_writer.h"
#include "checkpoint/save/pacer.h"
#include "checkpoint/save/save_steps.h"
#include "checkpoint/save/shard_wait.h"
#include "data/files/input_file.h"

namespace trireme {
namespace {

// The header of what a rank of the group has written: nothing while it is not there yet.
std::optional<ShardHeader> TryPart(const SaveTask& task, std::int64_t rank) {
  const std::string path = task.part(rank);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    RefuseFailed(task, rank);
    return std::nullopt;
  }
  const ShardBytes bytes = ReadShardBytes(path);
  ShardHeader header = ParseShardHeader(bytes.header, bytes.file, path);
  const bool mine = header.step == task.step && header.attempt == task.attempt && header.rank == rank;
  return mine ? std::optional(std::move(header)) : std::nullopt;  // or an earlier save left it
}

std::vector<ShardHeader> AwaitParts(const SaveTask& task, const CommitLimits& limits) {
  CommitLimits group = limits;
  group.seconds *= kPatienceOfGroups * kPatienceOfGroups;
  ShardWait wait(task, task.part(task.rank), group);
  std::vector<ShardHeader> parts;
  for (std::int64_t rank = task.rank; rank < std::min(task.rank + task.ranks_per_file, task.ranks); ++rank) {
    std::optional<ShardHeader> part = TryPart(task, rank);
    while (!part) {
      wait.Pause(rank);
      part = TryPart(task, rank);
    }
    parts.push_back(std::move(*part));
  }
  return parts;
}

ShardHeader JoinedHeader(const SaveTask& task, const std::vector<ShardHeader>& parts) {
  ShardHeader joined{.step = task.step, .attempt = task.attempt, .rank = task.file(), .ranks = task.files()};
  std::vector<std::string> choices;
  for (const ShardHeader& part : parts) {
    joined.slices.insert(joined.slices.end(), part.slices.begin(), part.slices.end());
    choices.push_back(part.device_choices);
  }
  joined.device_choices = FormatRankChoices(choices);
  return joined;
}

// Copies the values of one rank, each chunk checked against the digest that the rank wrote.
void CopyPart(const InputFile& file, const ShardHeader& part, ShardWriter& writer) {
  std::vector<float> values;
  for (const ShardSlice& slice : part.slices) {
    for (std::size_t i = 0; i < slice.chunks.size(); ++i) {
      const std::int64_t first = static_cast<std::int64_t>(i) * kChunkBytes;
      values.resize(static_cast<std::size_t>(std::min(kChunkBytes, slice.bytes() - first) / kElementBytes));
      file.Read(slice.offset + first, std::as_writable_bytes(std::span(values)));
      Require(DigestOf(std::as_bytes(std::span(values))) == slice.chunks[i],
              "'{}', tensor '{} {}', byte offset {}: what was read back is not what was written", file.path(),
              slice.kind, slice.tensor, slice.offset + first);
      writer.Append(values);
    }
  }
}

}  // namespace

void JoinParts(const SaveTask& task, const CommitLimits& limits) {
  NamingLostFolder(task, [&] {
    const std::vector<ShardHeader> parts = AwaitParts(task, limits);
    const ShardHeader joined = JoinedHeader(task, parts);
    RequireSpace(task, joined);
    const std::string path = task.shard(task.file());
    RemoveTree(path + ".part");
    ShardWriter writer(path + ".part", joined);
    Pacer pacer(task.hurry);
    writer.set_on_chunk([&pacer] { pacer.Rest(); });
    std::vector<std::string> files;
    for (const ShardHeader& part : parts) {
      files.push_back(task.part(part.rank));
      CopyPart(InputFile(files.back()), part, writer);
    }
    writer.Finish();
    if (task.read_back) {
      writer.VerifyWritten();
    }
    RemoveFiles(files);  // before the shard has its name: rank 0 may then rename the folder at any moment
    MoveIntoPlace(path + ".part", path);
  });
}

}  // namespace trireme
