// A save that is killed, really: a child process takes SIGKILL at a chosen point of the protocol.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "base/error.h"
#include "checkpoint/saved_world.h"
#include "checkpoint/tools/reports.h"

namespace trireme {
namespace {

constexpr int kRanks = 3;

// Saves steps up to `step` and dies in the last save, at `point` of rank `rank`.
[[noreturn]] void SaveAndDie(const std::string& folder, const ParameterTable& table, std::int64_t step, SavePoint point,
                             int rank) {
  SaveTask task{.folder = folder, .step = step, .ranks = kRanks};
  for (task.rank = kRanks - 1; task.rank >= 0; --task.rank) {
    task.hook = [&](SavePoint now) {
      if (now == point && task.rank == rank) {
        raise(SIGKILL);
      }
    };
    WriteShard(task, Views(SlicesOfRank(table, DataRanks(kRanks), static_cast<int>(task.rank), step)));
  }
  task.rank = 0;
  CommitCheckpoint(task, StateAt(table.config(), step), {.seconds = 0});
  task.Reached(SavePoint::kPrune);
  PruneCheckpoints(folder, 2);
  _exit(0);
}

class Crash : public testing::TestWithParam<int> {};

TEST_P(Crash, LeavesTheNewestOrThePreviousCheckpointWhole) {
  const auto point = static_cast<SavePoint>(GetParam());
  const ParameterTable table(TinyModel("gpt2"));
  for (const int rank : {0, kRanks - 1}) {
    const bool reached = rank == 0 || point < SavePoint::kBeforeManifest;
    const TestFolder folder;
    SaveWorld(folder.path(), table, DataRanks(kRanks), 1);
    SaveWorld(folder.path(), table, DataRanks(kRanks), 2);
    const pid_t child = fork();
    if (child == 0) {
      SaveAndDie(folder.path(), table, 3, point, rank);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_EQ(WIFSIGNALED(status), reached);
    const std::int64_t expected = point < SavePoint::kAfterRename && reached ? 2 : 3;
    const auto found = FindNewest(folder.path());
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->checkpoint.step, expected) << Name(point) << " rank " << rank;
    EXPECT_TRUE(found->refused.empty()) << "a torn save must never look like a checkpoint";
    EXPECT_EQ(WrongValues(CheckpointReader(found->checkpoint.path), table, {}, expected), 0);
    EXPECT_EQ(VerifyCheckpoint(folder.path()).status, 0);

    RemoveUnfinished(folder.path());
    SaveWorld(folder.path(), table, DataRanks(kRanks), 4);
    EXPECT_EQ(FindNewest(folder.path())->checkpoint.step, 4);
  }
}

INSTANTIATE_TEST_SUITE_P(Points, Crash,
                         testing::Range(static_cast<int>(SavePoint::kOpen), static_cast<int>(SavePoint::kPrune) + 1),
                         [](const auto& each) {
                           std::string name = Name(static_cast<SavePoint>(each.param));
                           std::erase(name, '-');
                           return name;
                         });

TEST(Crash, HalfAPruningIsNoCheckpoint) {
  const ParameterTable table(TinyModel("gpt2"));
  const TestFolder folder;
  SaveWorld(folder.path(), table, {}, 1);
  SaveWorld(folder.path(), table, {}, 2);
  std::filesystem::rename(folder / "step-000001", folder / "step-000001.pruned.tmp");
  std::filesystem::remove(folder / "step-000001.pruned.tmp/manifest.json");
  EXPECT_EQ(ListCheckpoints(folder.path()).size(), 1U);
  RemoveUnfinished(folder.path());
  EXPECT_FALSE(std::filesystem::exists(folder / "step-000001.pruned.tmp"));
}

}  // namespace
}  // namespace trireme
