#include "checkpoint/save/stream_save.h"

#include <algorithm>
#include <filesystem>

#include "base/durable_file.h"
#include "base/error.h"
#include "checkpoint/format/shard_writer.h"
#include "checkpoint/save/save_steps.h"

namespace trireme {
namespace {

// Floats handed over at a time.
constexpr std::int64_t kStreamBlock = std::int64_t{4} << 20;

struct Part {
  std::size_t tensor = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

std::vector<Part> PartsOf(const StreamSave& save, std::int64_t shard) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < save.tensors.size(); ++i) {
    const std::int64_t count = save.tensors[i].shape.count();
    const std::int64_t share = CeilDiv(count, save.shards);
    const Part part{.tensor = i, .first = std::min(count, share * shard), .last = std::min(count, share * (shard + 1))};
    if (part.first < part.last) {
      parts.push_back(part);
    }
  }
  return parts;
}

void WriteStreamedShard(const StreamSave& save, const SaveTask& task) {
  const std::vector<Part> parts = PartsOf(save, task.rank);
  ShardHeader header{.step = task.step, .rank = task.rank, .ranks = task.ranks};
  for (const Part& part : parts) {
    const ManifestTensor& tensor = save.tensors[part.tensor];
    header.slices.push_back({.tensor = tensor.name,
                             .kind = tensor.kind,
                             .shape = tensor.shape,
                             .pieces = {{.first = part.first, .count = part.last - part.first}}});
  }
  ShardWriter writer(task.shard(task.rank), std::move(header));
  std::vector<float> block;
  for (const Part& part : parts) {
    for (std::int64_t first = part.first; first < part.last; first += kStreamBlock) {
      block.resize(static_cast<std::size_t>(std::min(kStreamBlock, part.last - first)));
      save.read(part.tensor, first, block);
      writer.Append(block);
    }
  }
  writer.Finish();
}

}  // namespace

std::string SaveStream(const StreamSave& save) {
  Require(save.shards >= 1 && save.shards <= 100'000, "{} shards; 1 to 100000 can be written", save.shards);
  SaveTask task{.folder = save.folder, .step = save.state.step, .ranks = save.shards};
  Require(!std::filesystem::exists(task.finished()), "'{}' exists already", task.finished());
  task.temporary = MakeTemporaryFolder(task.finished());
  try {
    for (task.rank = 0; task.rank < task.ranks; ++task.rank) {
      WriteStreamedShard(save, task);
    }
    task.rank = 0;
    CommitCheckpoint(task, save.state, {.seconds = 0, .groups = false});
  } catch (...) {
    RemoveTree(task.unfinished());
    throw;
  }
  return task.finished();
}

}  // namespace trireme
