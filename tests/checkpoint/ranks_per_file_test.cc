// Shards that hold the state of several ranks: fewer files, the same state, whichever rank failed is named, and many
// ranks divide the removal of old checkpoints.
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <set>

#include "base/error.h"
#include "checkpoint/format/rank_choices.h"
#include "checkpoint/saved_world.h"
#include "checkpoint/tools/reports.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

using Savers = std::vector<std::unique_ptr<CheckpointSaver>>;

class RanksPerFile : public testing::Test {
 protected:
  RanksPerFile() : table_(TinyModel("llama")) {}

  // A saver for every rank of `layout`, `ranks` to a file.
  Savers MakeSavers(const ParallelLayout& layout, std::int64_t ranks, const SaveHook& hook, std::int64_t keep = 100) {
    Savers savers;
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      savers.push_back(std::make_unique<CheckpointSaver>(SaverOptions{.folder = folder_.path(),
                                                                      .rank = rank,
                                                                      .ranks = layout.ranks(),
                                                                      .ranks_per_file = ranks,
                                                                      .keep = keep,
                                                                      .message =
                                                                          [&](const std::string& text) {
                                                                            const std::lock_guard lock(mutex_);
                                                                            messages_.push_back(text);
                                                                          },
                                                                      .hook = hook}));
    }
    return savers;
  }

  // All ranks save at once; what they say. `meanwhile`: called while they do.
  std::vector<std::string> Save(Savers& savers, const ParallelLayout& layout, std::int64_t step,
                                const std::function<void()>& meanwhile = {}) {
    messages_.clear();
    std::vector<std::vector<OwnedSlice>> slices;
    for (std::size_t rank = 0; rank < savers.size(); ++rank) {
      slices.push_back(SlicesOfRank(table_, layout, static_cast<int>(rank), step));
      savers[rank]->StartSave(StateAt(table_.config(), step), Views(slices.back()), true,
                              "of rank " + std::to_string(rank));
    }
    if (meanwhile) {
      meanwhile();
    }
    for (const auto& saver : savers) {
      saver->Wait();
    }
    return messages_;
  }

  std::vector<std::string> Save(const ParallelLayout& layout, std::int64_t ranks, std::int64_t step,
                                const SaveHook& hook = {}) {
    Savers savers = MakeSavers(layout, ranks, hook);
    return Save(savers, layout, step);
  }

  std::string Step(std::int64_t step) const { return folder_ / StepFolderName(step); }

  ParameterTable table_;
  TestFolder folder_;
  std::mutex mutex_;
  std::vector<std::string> messages_;
};

TEST_F(RanksPerFile, ShareOneAndAnyLayoutReadsIt) {
  const ParallelLayout layout = Zero1(2, 5);
  std::set<std::string> digests;
  std::int64_t step = 1;
  for (const std::int64_t ranks : {1, 3, 5, 10, 64}) {
    EXPECT_THAT(Save(layout, ranks, step), ElementsAre());
    const CheckpointReader reader(Step(step));
    EXPECT_EQ(reader.shards(), CeilDiv(10, ranks));
    EXPECT_EQ(NamesIn(Step(step)).size(), static_cast<std::size_t>(reader.shards()) + 2) << "index and manifest";
    for (const ParallelLayout& other : {layout, Zero1(1, 3)}) {
      EXPECT_EQ(WrongValues(reader, table_, other, step), 0) << ranks;
    }
    for (std::int64_t rank = 0; rank < 25; ++rank) {
      EXPECT_EQ(reader.DeviceChoices(rank), "of rank " + std::to_string(rank % 10)) << ranks << " in a file";
    }
    EXPECT_EQ(VerifyCheckpoint(Step(step)).status, 0);
    ++step;
  }
}

TEST_F(RanksPerFile, HaveTheIndexThatTheirHeadersMake) {
  const ParallelLayout layout = Zero1(2, 35);
  SaveWorld(folder_.path(), table_, layout, 1, 2);  // 35 files: two groups index them
  const CheckpointReader by_index(Step(1));
  EXPECT_EQ(by_index.shards(), 35);
  const std::string index = ReadBytes(Step(1) + "/index.bin");
  std::filesystem::remove(Step(1) + "/index.bin");
  EXPECT_EQ(CheckpointReader(Step(1)).index().bytes(), index);
  EXPECT_EQ(VerifyCheckpoint(Step(1), true).status, 0);
  EXPECT_EQ(ReadBytes(Step(1) + "/index.bin"), index);
}

TEST_F(RanksPerFile, AreRegroupedByConvert) {
  SaveWorld(folder_.path(), table_, Zero1(2, 3), 1, 3);
  ConvertCheckpoint(Step(1), folder_ / "regrouped", {.shards = 4});
  const CheckpointReader whole(folder_ / "regrouped/step-000001");
  EXPECT_EQ(whole.shards(), 4);
  EXPECT_EQ(DigestOfState(whole), DigestOfState(CheckpointReader(Step(1))));
}

TEST_F(RanksPerFile, AreNamedWhenOneOfThemFails) {
  const ParallelLayout layout = Zero1(2, 3);
  Savers savers = MakeSavers(layout, 3, {});
  savers[4] = std::make_unique<CheckpointSaver>(
      SaverOptions{.folder = folder_.path(), .rank = 4, .ranks = 6, .ranks_per_file = 3, .hook = [](SavePoint point) {
                     Require(point != SavePoint::kBeforeSync, "the disk of rank {} burnt", 4);
                   }});
  EXPECT_THAT(Save(savers, layout, 1), ElementsAre(HasSubstr("rank 4: the disk of rank 4 burnt")));
  EXPECT_TRUE(ListCheckpoints(folder_.path()).empty());
}

TEST_F(RanksPerFile, MissNothingOnceTheirPartsAreJoined) {
  std::mutex gate;
  std::unique_lock closed(gate);
  std::atomic<bool> joined = false;
  const auto wait = [&](SavePoint point) {
    if (point == SavePoint::kBeforeManifest) {
      joined = true;
      joined.notify_all();
      const std::lock_guard pass(gate);
    }
  };
  const ParallelLayout layout = Zero1(2, 3);
  Savers savers = MakeSavers(layout, 4, wait);
  const auto messages = Save(savers, layout, 1, [&] {
    joined.wait(false);
    for (const auto& saver : savers) {
      saver->WaitForShard();
      EXPECT_TRUE(saver->ShardIsThere());
    }
    EXPECT_THAT(NamesIn(Step(1) + ".tmp"), UnorderedElementsAre(ShardFileName(0), ShardFileName(1)));
    std::filesystem::remove(Step(1) + ".tmp/" + ShardFileName(1));
    EXPECT_TRUE(savers[3]->ShardIsThere());
    EXPECT_FALSE(savers[5]->ShardIsThere());
    closed.unlock();
  });
  EXPECT_THAT(messages, ElementsAre(HasSubstr("the shard of rank 4 has been removed from")));
}

TEST_F(RanksPerFile, DoNotTakeAPartThatTheDiskHasChanged) {
  const ParallelLayout layout = Zero1(2, 1);
  SaveTask task{.folder = folder_.path(), .step = 1, .ranks = 2, .ranks_per_file = 2};
  for (task.rank = 0; task.rank < 2; ++task.rank) {
    WriteShard(task, Views(SlicesOfRank(table_, layout, static_cast<int>(task.rank), 1)));
  }
  std::string part = ReadBytes(task.part(1));
  part.back() = static_cast<char>(part.back() ^ 1);
  WriteBytes(task.part(1), part);
  task.rank = 0;
  try {
    JoinParts(task, {.seconds = 0});
    FAIL() << "the part was taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("what was read back is not what was written"));
    EXPECT_THAT(error.what(), HasSubstr("rank-00001"));
  }
}

TEST_F(RanksPerFile, DoNotTakeAPartOfAnEarlierAttempt) {
  const ParallelLayout layout = Zero1(2, 1);
  SaveTask task{.folder = folder_.path(), .step = 1, .rank = 1, .ranks = 2, .ranks_per_file = 2};
  WriteShard(task, Views(SlicesOfRank(table_, layout, 1, 1)));
  task.rank = 0;
  task.attempt = 1;
  WriteShard(task, Views(SlicesOfRank(table_, layout, 0, 1)));
  EXPECT_THROW(JoinParts(task, {.seconds = 0}), Error);
}

TEST_F(RanksPerFile, ChoicesThatAreNoListAreRefused) {
  EXPECT_THAT(ParseRankChoices("engines fp32=packed\n", "x"), ElementsAre("engines fp32=packed\n"));
  for (const char* bad : {"[", "[]", "[1]", "[\"a\"", "[[\"a\"]]"}) {
    EXPECT_THROW(ParseRankChoices(bad, "x"), Error) << bad;
  }
}

TEST_F(RanksPerFile, ManyRanksDivideThePrunedCheckpointsAmongThem) {
  for (const std::int64_t step : {1, 2}) {
    SaveWorld(folder_.path(), table_, Zero1(2, 3), step);
  }
  EXPECT_THAT(PruneCheckpoints(folder_.path(), 1, Removal::kByRanks), ElementsAre(1));
  EXPECT_THAT(NamesIn(folder_.path()), UnorderedElementsAre("step-000001.pruned.tmp", "step-000002"));
  RemovePrunedPart(folder_.path(), 1, 4);
  EXPECT_THAT(NamesIn(folder_ / "step-000001.pruned.tmp"),
              UnorderedElementsAre(ShardFileName(0), ShardFileName(2), ShardFileName(3), ShardFileName(4), "index.bin",
                                   "manifest.json"));
  for (const std::int64_t rank : {0, 2, 3, 3}) {
    RemovePrunedPart(folder_.path(), rank, 4);
  }
  EXPECT_THAT(NamesIn(folder_ / "step-000001.pruned.tmp"), UnorderedElementsAre("index.bin", "manifest.json"));
  EXPECT_EQ(VerifyCheckpoint(Step(2)).status, 0);
  RemoveUnfinished(folder_.path());
  EXPECT_THAT(NamesIn(folder_.path()), ElementsAre("step-000002"));
}

TEST_F(RanksPerFile, AboveAFewDozenRemoveTheirPartsBeforeTheyWrite) {
  const ParallelLayout layout = Zero1(2, 17);
  std::vector<std::size_t> left;
  const auto look = [&](SavePoint point) {
    if (point == SavePoint::kBeforeManifest && std::filesystem::exists(Step(1) + ".pruned.tmp")) {
      left.push_back(NamesIn(Step(1) + ".pruned.tmp").size());
    }
  };
  Savers savers = MakeSavers(layout, 1, look, 1);
  for (const std::int64_t step : {1, 2, 3}) {
    EXPECT_THAT(Save(savers, layout, step), ElementsAre());
  }
  EXPECT_THAT(left, ElementsAre(2U)) << "its index and manifest, when all ranks had written";
  EXPECT_THAT(NamesIn(folder_.path()), UnorderedElementsAre("step-000002.pruned.tmp", "step-000003"));
  EXPECT_EQ(NamesIn(Step(2) + ".pruned.tmp").size(), 36U);
  for (const auto& saver : savers) {
    saver->RemovePruned();
  }
  EXPECT_EQ(NamesIn(Step(2) + ".pruned.tmp").size(), 2U);
}

}  // namespace
}  // namespace trireme
