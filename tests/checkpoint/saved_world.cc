#include "checkpoint/saved_world.h"

#include <bit>

#include "base/random.h"
#include "model/stage_partition.h"

namespace trireme {
namespace {

const char* const kKinds[] = {kMasterKind, kFirstMomentKind, kSecondMomentKind};

std::uint64_t KeyOf(const std::string& tensor, const std::string& kind, std::int64_t salt) {
  return RandomKey(static_cast<std::uint64_t>(salt), kind + "/" + tensor);
}

float ValueAt(std::uint64_t key, std::int64_t index) {
  // Any bits but those of a NaN, subnormals and both zeros among them.
  return std::bit_cast<float>(static_cast<std::uint32_t>(RandomBits(key, static_cast<std::uint64_t>(index))) &
                              0xbfffffffU);
}

OwnedSlice MakeSlice(const Parameter& parameter, const char* kind, std::vector<SliceRun> runs, std::int64_t salt) {
  OwnedSlice owned;
  owned.runs = std::move(runs);
  owned.slice = {.tensor = parameter.name, .kind = kind, .shape = parameter.shape, .pieces = PiecesOf(owned.runs)};
  const std::uint64_t key = KeyOf(parameter.name, kind, salt);
  for (const SliceRun& run : owned.runs) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      owned.values.push_back(ValueAt(key, run.global + i));
    }
  }
  return owned;
}

// Runs of elements [first, last) of a slice, renumbered from 0.
std::vector<SliceRun> Clip(const std::vector<SliceRun>& runs, std::int64_t first, std::int64_t last) {
  std::vector<SliceRun> clipped;
  std::int64_t local = 0;
  for (const SliceRun& run : runs) {
    const std::int64_t begin = std::max(run.local, first);
    const std::int64_t end = std::min(run.local + run.count, last);
    if (begin < end) {
      clipped.push_back({.local = local, .global = run.global + begin - run.local, .count = end - begin});
      local += end - begin;
    }
  }
  return clipped;
}

}  // namespace

TestFolder::TestFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "trireme-checkpoint-XXXXXX").string();
  path_ = mkdtemp(name.data());
}

TestFolder::~TestFolder() { std::filesystem::remove_all(path_); }

ModelConfig TinyModel(const std::string& family) {
  ModelConfig config{.family = family, .layers = 4, .hidden = 32, .heads = 4, .vocabulary = 61, .sequence = 16};
  config.kv_heads = family == "llama" ? 2 : 0;
  return Completed(config);
}

float ValueAt(const std::string& tensor, const std::string& kind, std::int64_t index, std::int64_t salt) {
  return ValueAt(KeyOf(tensor, kind, salt), index);
}

std::vector<OwnedSlice> SlicesOfRank(const ParameterTable& table, const ParallelLayout& layout, int rank,
                                     std::int64_t salt) {
  const Coordinate here = ProcessGrid(layout).CoordinateOf(rank);
  const StagePartition partition(table.config(), layout);
  const ShardPlan plan(table, layout, partition, here.pipeline);
  std::vector<OwnedSlice> slices;
  for (const Bucket& bucket : plan.buckets) {
    const OwnedRange range = OwnedBy(bucket, here.data);
    for (const BucketEntry& entry : bucket.entries) {
      const Parameter& parameter = table.rows()[static_cast<std::size_t>(entry.row)];
      if ((parameter.split.replicated() && here.tensor != 0) || (bucket.tied && !plan.counts_tied)) {
        continue;
      }
      const auto runs =
          Clip(SliceRuns(parameter, layout.tensor, here.tensor), range.first - entry.offset, range.last - entry.offset);
      for (const char* kind : kKinds) {
        if (!runs.empty()) {
          slices.push_back(MakeSlice(parameter, kind, runs, salt));
        }
      }
    }
  }
  return slices;
}

std::vector<OwnedSlice> RandomSlicesOfRank(const ParameterTable& table, int ranks, int rank, std::int64_t salt) {
  std::vector<OwnedSlice> slices;
  std::uint64_t draw = 0;
  for (const Parameter& parameter : table.rows()) {
    for (const char* kind : kKinds) {
      std::vector<SliceRun> runs;
      std::int64_t local = 0;
      for (std::int64_t first = 0; first < parameter.shape.count();) {
        const auto length = static_cast<std::int64_t>(1 + RandomBelow(99, draw++, 97));
        const std::int64_t count = std::min(length, parameter.shape.count() - first);
        if (static_cast<int>(RandomBelow(98, draw++, static_cast<std::uint64_t>(ranks))) == rank) {
          runs.push_back({.local = local, .global = first, .count = count});
          local += count;
        }
        first += count;
      }
      if (!runs.empty()) {
        slices.push_back(MakeSlice(parameter, kind, runs, salt));
      }
    }
  }
  return slices;
}

std::vector<SaveSlice> Views(const std::vector<OwnedSlice>& owned) {
  std::vector<SaveSlice> views;
  for (const OwnedSlice& one : owned) {
    views.push_back(one.slice);
    views.back().values = one.values;
  }
  return views;
}

RunState StateAt(const ModelConfig& model, std::int64_t step) {
  RunState state;
  state.step = step;
  state.consumed_samples = step * 8;
  state.updates = step;
  state.loss_scale = 1024;
  state.seed = 7;
  state.model = model;
  state.recipe = "[train]\nseed = 7\n";
  state.keys = {{.key = "layout.tensor", .value = "1"}, {.key = "train.seed", .value = "7"}};
  return state;
}

void SaveWorld(const std::string& folder, const ParameterTable& table, const ParallelLayout& layout, std::int64_t step,
               std::int64_t ranks_per_file) {
  SaveTask task{.folder = folder, .step = step, .ranks = layout.ranks(), .ranks_per_file = ranks_per_file};
  for (task.rank = 0; task.rank < task.ranks; ++task.rank) {
    const auto owned = SlicesOfRank(table, layout, static_cast<int>(task.rank), step);
    WriteShard(task, Views(owned));
  }
  for (task.rank = 0; ranks_per_file > 1 && task.rank < task.ranks; task.rank += ranks_per_file) {
    JoinParts(task, {.seconds = 0});
  }
  for (task.rank = task.ranks - 1; task.rank > 0; --task.rank) {
    if (IndexesGroup(task)) {
      WriteGroupIndex(task, {.seconds = 0});
    }
  }
  CommitCheckpoint(task, StateAt(table.config(), step), {.seconds = 0});
}

std::int64_t WrongValues(const CheckpointReader& reader, const ParameterTable& table, const ParallelLayout& layout,
                         std::int64_t salt) {
  std::int64_t wrong = 0;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    for (const OwnedSlice& owned : SlicesOfRank(table, layout, rank, salt)) {
      const StoredTensor* tensor = reader.Find(owned.slice.tensor, owned.slice.kind);
      std::vector<float> values(owned.values.size());
      reader.Read(*tensor, owned.runs, values.data());
      for (std::size_t i = 0; i < values.size(); ++i) {
        wrong += std::bit_cast<std::uint32_t>(values[i]) != std::bit_cast<std::uint32_t>(owned.values[i]) ? 1 : 0;
      }
    }
  }
  return wrong;
}

ParallelLayout DataRanks(int ranks) {
  ParallelLayout layout;
  layout.data = ranks;
  return layout;
}

std::vector<ParallelLayout> SomeLayouts() {
  std::vector<ParallelLayout> layouts;
  for (const auto& [tensor, pipeline, data] : {std::tuple{1, 1, 1},
                                               {2, 1, 1},
                                               {1, 2, 1},
                                               {1, 1, 2},
                                               {1, 1, 3},
                                               {2, 2, 1},
                                               {2, 1, 2},
                                               {1, 2, 2},
                                               {1, 4, 1},
                                               {1, 1, 5},
                                               {2, 1, 3},
                                               {2, 2, 2},
                                               {1, 4, 2},
                                               {1, 1, 8}}) {
    ParallelLayout layout;
    layout.tensor = tensor;
    layout.pipeline = pipeline;
    layout.data = data;
    layout.zero = 1;
    layouts.push_back(layout);
  }
  return layouts;
}

}  // namespace trireme
