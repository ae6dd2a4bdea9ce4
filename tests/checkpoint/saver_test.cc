#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "checkpoint/save/checkpoint_saver.h"
#include "checkpoint/saved_world.h"
#include "checkpoint/tools/reports.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Messages of all ranks.
class Mailbox {
 public:
  std::function<void(const std::string&)> writer() {
    return [this](const std::string& text) {
      const std::lock_guard lock(mutex_);
      messages_.push_back(text);
    };
  }
  std::vector<std::string> messages() const { return messages_; }

 private:
  std::mutex mutex_;
  std::vector<std::string> messages_;
};

std::vector<std::int64_t> StepsIn(const std::string& folder) {
  std::vector<std::int64_t> steps;
  for (const StepFolder& checkpoint : ListCheckpoints(folder)) {
    steps.push_back(checkpoint.step);
  }
  return steps;
}

bool HasUnfinished(const std::string& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().string().ends_with(".tmp")) {
      return true;
    }
  }
  return false;
}

// Runs `body(rank, saver)` on a thread a rank.
void WithSavers(int ranks, const SaverOptions& options, const std::function<void(int, CheckpointSaver&)>& body) {
  std::vector<std::unique_ptr<CheckpointSaver>> savers;
  for (int rank = 0; rank < ranks; ++rank) {
    SaverOptions mine = options;
    mine.rank = rank;
    mine.ranks = ranks;
    savers.push_back(std::make_unique<CheckpointSaver>(mine));
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] { body(rank, *savers[static_cast<std::size_t>(rank)]); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

// A limit of this process, put back at the end.
class Limit {
 public:
  Limit(int resource, rlim_t value) : resource_(resource) {
    getrlimit(static_cast<__rlimit_resource>(resource_), &before_);
    rlimit now = before_;
    now.rlim_cur = value;
    setrlimit(static_cast<__rlimit_resource>(resource_), &now);
  }
  ~Limit() { setrlimit(static_cast<__rlimit_resource>(resource_), &before_); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  int resource_;
  rlimit before_{};
};

TEST(CheckpointSaver, RanksMeetInTheFileSystem) {
  const ParameterTable table(TinyModel("bloom"));
  const TestFolder folder;
  ParallelLayout layout;
  layout.tensor = 2;
  layout.pipeline = 2;
  Mailbox mailbox;
  WithSavers(4, {.folder = folder.path(), .keep = 2, .message = mailbox.writer()},
             [&](int rank, CheckpointSaver& saver) {
               for (std::int64_t step = 1; step <= 4; ++step) {
                 const auto owned = SlicesOfRank(table, layout, rank, step);
                 saver.StartSave(StateAt(table.config(), step), Views(owned));
                 saver.Wait();
               }
             });
  EXPECT_THAT(mailbox.messages(), ElementsAre());
  EXPECT_THAT(StepsIn(folder.path()), ElementsAre(4, 3));
  EXPECT_FALSE(HasUnfinished(folder.path()));
  const CheckpointReader reader(folder / StepFolderName(4));
  EXPECT_EQ(WrongValues(reader, table, {}, 4), 0);
  EXPECT_EQ(reader.manifest().state.consumed_samples, 32);
}

TEST(CheckpointSaver, ReturnsBeforeTheCheckpointIsThere) {
  const ParameterTable table(TinyModel("gpt2"));
  const TestFolder folder;
  std::mutex gate;
  std::unique_lock closed(gate);
  const auto wait = [&](SavePoint point) {
    if (point == SavePoint::kOpen) {
      const std::lock_guard pass(gate);
    }
  };
  const auto owned = SlicesOfRank(table, {}, 0, 1);
  CheckpointSaver saver({.folder = folder.path(), .hook = wait});
  saver.StartSave(StateAt(table.config(), 1), Views(owned));
  EXPECT_TRUE(ListCheckpoints(folder.path()).empty());
  EXPECT_EQ(saver.last_committed(), -1);
  closed.unlock();
  saver.Wait();
  EXPECT_THAT(StepsIn(folder.path()), ElementsAre(1));
  EXPECT_EQ(saver.last_committed(), 1);
}

TEST(CheckpointSaver, SavingAStepAgainReplacesIt) {
  const ParameterTable table(TinyModel("gpt2"));
  const TestFolder folder;
  CheckpointSaver saver({.folder = folder.path()});
  for (const std::int64_t salt : {1, 2}) {
    const auto owned = SlicesOfRank(table, {}, 0, salt);
    saver.StartSave(StateAt(table.config(), 9), Views(owned));
    saver.Wait();
  }
  EXPECT_EQ(WrongValues(CheckpointReader(folder / StepFolderName(9)), table, {}, 2), 0);
  EXPECT_FALSE(HasUnfinished(folder.path()));
}

TEST(CheckpointSaver, PruningKeepsGoodOnesAndCountsNoDamagedOnes) {
  const ParameterTable table(TinyModel("gpt2"));
  const TestFolder folder;
  for (std::int64_t step = 1; step <= 5; ++step) {
    SaveWorld(folder.path(), table, {}, step);
  }
  WriteBytes(folder / "step-000005/manifest.json", "{}");
  EXPECT_THAT(PruneCheckpoints(folder.path(), 2), ElementsAre(2, 1));
  EXPECT_THAT(StepsIn(folder.path()), ElementsAre(5, 4, 3));
}

TEST(CheckpointSaver, AFullDiskCostsOneMessageAndNothingElse) {
  const ParameterTable table(TinyModel("gpt2"));
  const TestFolder folder;
  SaveWorld(folder.path(), table, {}, 1);
  ParallelLayout layout;
  layout.data = 3;
  Mailbox mailbox;
  std::signal(SIGXFSZ, SIG_IGN);
  {
    // Every file ends at 20 kB: a full disk, as far as the program can see.
    const Limit limit(RLIMIT_FSIZE, 20'000);
    WithSavers(3, {.folder = folder.path(), .message = mailbox.writer()}, [&](int rank, CheckpointSaver& saver) {
      const auto owned = SlicesOfRank(table, layout, rank, 2);
      saver.StartSave(StateAt(table.config(), 2), Views(owned));
      saver.Wait();
    });
  }
  ASSERT_THAT(mailbox.messages(), testing::SizeIs(1));
  EXPECT_THAT(mailbox.messages()[0], HasSubstr("checkpoint of step 2 failed"));
  EXPECT_THAT(mailbox.messages()[0], HasSubstr("File too large"));
  EXPECT_THAT(mailbox.messages()[0], HasSubstr("newest checkpoint is that of step 1"));
  EXPECT_EQ(WrongValues(CheckpointReader(folder / StepFolderName(1)), table, {}, 1), 0);
  // A rank that failed last may have left its file behind; the next save clears it away.
  CheckpointSaver next({.folder = folder.path()});
  const auto owned = SlicesOfRank(table, {}, 0, 3);
  next.StartSave(StateAt(table.config(), 3), Views(owned));
  next.Wait();
  EXPECT_FALSE(HasUnfinished(folder.path()));
}

TEST(CheckpointSaver, ABitThatTheDiskTurnsIsFoundBeforeTheCheckpointCounts) {
  const ParameterTable table(TinyModel("gpt2"));
  const TestFolder folder;
  SaveWorld(folder.path(), table, {}, 1);
  Mailbox mailbox;
  const auto flip = [&](SavePoint point) {
    if (point == SavePoint::kAfterSync) {
      std::fstream file(folder / StepFolderName(2) + ".tmp/" + ShardFileName(0) + ".part",
                        std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(-1, std::ios::end);
      const char last = static_cast<char>(file.get());
      file.seekp(-1, std::ios::end);
      file.put(static_cast<char>(last ^ 1));
    }
  };
  CheckpointSaver saver({.folder = folder.path(), .message = mailbox.writer(), .hook = flip});
  const auto owned = SlicesOfRank(table, {}, 0, 2);
  saver.StartSave(StateAt(table.config(), 2), Views(owned));
  saver.Wait();
  ASSERT_THAT(mailbox.messages(), testing::SizeIs(1));
  EXPECT_THAT(mailbox.messages()[0], HasSubstr("what was read back is not what was written"));
  EXPECT_THAT(StepsIn(folder.path()), ElementsAre(1));
}

TEST(CheckpointSaver, NoFileHandlesCostOneMessage) {
  const ParameterTable table(TinyModel("gpt2"));
  const TestFolder folder;
  SaveWorld(folder.path(), table, {}, 1);
  Mailbox mailbox;
  CheckpointSaver saver({.folder = folder.path(), .message = mailbox.writer()});
  const auto owned = SlicesOfRank(table, {}, 0, 2);
  {
    const Limit limit(RLIMIT_NOFILE, 3);
    saver.StartSave(StateAt(table.config(), 2), Views(owned));
    saver.Wait();
  }
  ASSERT_THAT(mailbox.messages(), testing::SizeIs(1));
  EXPECT_THAT(mailbox.messages()[0], HasSubstr("Too many open files"));
  EXPECT_EQ(WrongValues(CheckpointReader(folder / StepFolderName(1)), table, {}, 1), 0);
  const auto next = SlicesOfRank(table, {}, 0, 3);
  saver.StartSave(StateAt(table.config(), 3), Views(next));
  saver.Wait();
  EXPECT_THAT(StepsIn(folder.path()), ElementsAre(3, 1));
}

TEST(CheckpointSaver, AFolderThatCannotBeMadeCostsOneMessage) {
  const ParameterTable table(TinyModel("gpt2"));
  const TestFolder folder;
  WriteBytes(folder / "file", "in the way");
  Mailbox mailbox;
  CheckpointSaver saver({.folder = folder / "file/checkpoints", .message = mailbox.writer()});
  const auto owned = SlicesOfRank(table, {}, 0, 1);
  saver.StartSave(StateAt(table.config(), 1), Views(owned));
  saver.Wait();
  ASSERT_THAT(mailbox.messages(), testing::SizeIs(1));
  EXPECT_THAT(mailbox.messages()[0], HasSubstr("Not a directory"));
}

TEST(CheckpointSaver, RankZeroTellsWhyAnotherRankFailed) {
  const ParameterTable table(TinyModel("gpt2"));
  const TestFolder folder;
  ParallelLayout layout;
  layout.data = 2;
  Mailbox mailbox;
  CheckpointSaver first({.folder = folder.path(), .rank = 0, .ranks = 2, .message = mailbox.writer()});
  CheckpointSaver second(
      {.folder = folder.path(), .rank = 1, .ranks = 2, .message = mailbox.writer(), .hook = [](SavePoint point) {
         Require(point != SavePoint::kBeforeSync, "the disk of rank {} burnt", 1);
       }});
  const auto zero = SlicesOfRank(table, layout, 0, 1);
  const auto one = SlicesOfRank(table, layout, 1, 1);
  first.StartSave(StateAt(table.config(), 1), Views(zero));
  second.StartSave(StateAt(table.config(), 1), Views(one));
  first.Wait();
  second.Wait();
  EXPECT_THAT(mailbox.messages(), ElementsAre(HasSubstr("rank 1: the disk of rank 1 burnt")));
  EXPECT_FALSE(HasUnfinished(folder.path()));
}

TEST(CheckpointSaver, RankZeroWaitsNoLongerThanItsLimitAndNotAfterTheEnd) {
  const ParameterTable table(TinyModel("gpt2"));
  const TestFolder folder;
  ParallelLayout layout;
  layout.data = 2;
  const auto owned = SlicesOfRank(table, layout, 0, 1);
  Mailbox mailbox;
  {
    CheckpointSaver alone(
        {.folder = folder.path(), .rank = 0, .ranks = 2, .commit_seconds = 0.02, .message = mailbox.writer()});
    alone.StartSave(StateAt(table.config(), 1), Views(owned));
    alone.Wait();
  }
  {
    CheckpointSaver ended({.folder = folder.path(), .rank = 0, .ranks = 2, .message = mailbox.writer()});
    ended.StartSave(StateAt(table.config(), 1), Views(owned));
  }
  EXPECT_THAT(mailbox.messages(), ElementsAre(HasSubstr("did not come within"), HasSubstr("the run ended before")));
  EXPECT_FALSE(HasUnfinished(folder.path()));
}

TEST(CheckpointSaver, AFolderThatIsRemovedWhileRankZeroWaitsIsNamedAndEndsTheSave) {
  const ParameterTable table(TinyModel("gpt2"));
  const TestFolder folder;
  Mailbox mailbox;
  CheckpointSaver saver({.folder = folder / "run/checkpoints", .rank = 0, .ranks = 2, .message = mailbox.writer()});
  const auto owned = SlicesOfRank(table, {.data = 2}, 0, 1);
  saver.StartSave(StateAt(table.config(), 1), Views(owned));
  saver.WaitForShard();
  EXPECT_TRUE(saver.ShardIsThere());
  std::filesystem::rename(folder / "run", folder / "elsewhere");  // all at once, unlike remove_all
  saver.Wait();
  saver.WaitForShard();
  EXPECT_FALSE(saver.ShardIsThere());
  EXPECT_THAT(mailbox.messages(), ElementsAre(HasSubstr("'" + folder / "run" +
                                                        "' was removed while the checkpoint was "
                                                        "being written to it")));
}

TEST(CheckpointSaver, AShardThatIsRemovedBeforeRankZeroComesIsMissedByItsOwner) {
  const ParameterTable table(TinyModel("gpt2"));
  const TestFolder folder;
  const ParallelLayout layout{.data = 2};
  Mailbox mailbox;
  CheckpointSaver first({.folder = folder.path(), .rank = 0, .ranks = 2, .message = mailbox.writer()});
  CheckpointSaver second({.folder = folder.path(), .rank = 1, .ranks = 2, .message = mailbox.writer()});
  const auto zero = SlicesOfRank(table, layout, 0, 1);
  const auto one = SlicesOfRank(table, layout, 1, 1);
  second.StartSave(StateAt(table.config(), 1), Views(one));
  second.WaitForShard();
  EXPECT_TRUE(second.ShardIsThere());
  std::filesystem::remove_all(folder / "step-000001.tmp");
  second.WaitForShard();
  EXPECT_FALSE(second.ShardIsThere());
  first.StartSave(StateAt(table.config(), 1), Views(zero));
  first.WaitForShard();
  EXPECT_TRUE(first.ShardIsThere());
  first.ShardIsLost(1);
  first.Wait();
  EXPECT_THAT(mailbox.messages(),
              ElementsAre(HasSubstr("the shard of rank 1 has been removed from '" + folder.path())));
  EXPECT_FALSE(HasUnfinished(folder.path()));
}

TEST(CheckpointSaver, AShardThatIsRemovedBeforeTheRenameLeavesNoCheckpointWithoutIt) {
  const ParameterTable table(TinyModel("gpt2"));
  const TestFolder folder;
  Mailbox mailbox;
  CheckpointSaver saver({.folder = folder.path(), .message = mailbox.writer(), .hook = [&](SavePoint point) {
                           if (point == SavePoint::kBeforeRename) {
                             std::filesystem::remove(folder / "step-000001.tmp/" + ShardFileName(0));
                           }
                         }});
  const auto owned = SlicesOfRank(table, {}, 0, 1);
  saver.StartSave(StateAt(table.config(), 1), Views(owned));
  saver.Wait();
  EXPECT_THAT(mailbox.messages(), ElementsAre(HasSubstr("the shard of rank 0 has been removed from")));
  EXPECT_THAT(StepsIn(folder.path()), ElementsAre());
}

TEST(CheckpointSaver, WhatALateRankLeftIsRemovedByTheNextSave) {
  const ParameterTable table(TinyModel("gpt2"));
  const TestFolder folder;
  CheckpointSaver saver({.folder = folder.path()});
  std::filesystem::create_directories(folder / "step-000001.tmp");
  std::filesystem::create_directories(folder / "step-000009.tmp");
  const auto owned = SlicesOfRank(table, {}, 0, 2);
  saver.StartSave(StateAt(table.config(), 2), Views(owned));
  saver.Wait();
  EXPECT_FALSE(std::filesystem::exists(folder / "step-000001.tmp"));
  EXPECT_TRUE(std::filesystem::exists(folder / "step-000009.tmp")) << "another rank may be ahead";
}

TEST(CheckpointSaver, AShardOfAnEarlierAttemptIsNotTaken) {
  const ParameterTable table(TinyModel("gpt2"));
  const TestFolder folder;
  ParallelLayout layout;
  layout.data = 2;
  SaveTask task{.folder = folder.path(), .step = 1, .attempt = 0, .rank = 1, .ranks = 2};
  WriteShard(task, Views(SlicesOfRank(table, layout, 1, 1)));
  task.rank = 0;
  task.attempt = 1;
  WriteShard(task, Views(SlicesOfRank(table, layout, 0, 1)));
  EXPECT_THROW(CommitCheckpoint(task, StateAt(table.config(), 1), {.seconds = 0}), Error);
}

}  // namespace
}  // namespace trireme
