// Saves and resumes on file systems that are slow, have no locks or no exchange of names, or fail; and how many files a
// rank opens, whatever the number of ranks.
#include "checkpoint/file_system.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <mutex>

#include "base/error.h"
#include "checkpoint/tools/reports.h"
#include "comm/rank_runner.h"
#include "operate/rank_state.h"
#include "operate/run_checkpoints.h"
#include "operate/run_lock.h"

namespace trireme {
namespace {

using test::FileCall;
using test::FileFault;
using test::FileSystem;
using testing::HasSubstr;

ParallelLayout Zero1(int data) {
  ParallelLayout layout;
  layout.data = data;
  layout.zero = 1;
  return layout;
}

class OnAFileSystem : public testing::Test {
 protected:
  OnAFileSystem() : table_(TinyModel("gpt2")), files_(folder_.path()) {}

  using Body = std::function<void(RankContext&, RunCheckpoints&, RankState&)>;
  // Each rank with values of `salt`.
  void WithRanks(int ranks, std::int64_t salt, const Body& body) {
    RunConfig config;
    config.model = table_.config();
    config.layout = Zero1(ranks);
    config.checkpoint.keep = 5;
    RunThreadRanks(ranks, {.kind = "cpu"}, [&](RankContext& context) {
      RunCheckpoints checkpoints({.folder = folder_ / "checkpoints",
                                  .config = config,
                                  .message =
                                      [&](const std::string& text) {
                                        const std::lock_guard lock(mutex_);
                                        messages_.push_back(text);
                                      }},
                                 context.world, context.device, table_);
      RankState state(table_, config.layout, context.world.rank(), salt);
      body(context, checkpoints, state);
    });
  }

  void Save(int ranks, std::int64_t step) {
    WithRanks(ranks, step, [&](RankContext&, RunCheckpoints& checkpoints, RankState& state) {
      checkpoints.Save({{.step = step}}, state.states());
      checkpoints.Finish();
    });
  }

  // The step that all ranks load, with its values; opens of the rank that opened most files, but for rank 0.
  struct Loaded {
    std::int64_t step = -1;
    std::int64_t most_opens = 0;
    std::int64_t opens_of_first = 0;
  };
  Loaded Load(int ranks) {
    Loaded result;
    WithRanks(ranks, 0, [&](RankContext& context, RunCheckpoints& checkpoints, RankState& state) {
      state.Clear();
      const std::int64_t before = FileSystem::CallsOfThisThread(FileCall::kOpen);
      const auto loaded = checkpoints.Load(state.states());
      const std::int64_t opens = FileSystem::CallsOfThisThread(FileCall::kOpen) - before;
      Require(loaded.has_value() && state.Holds(loaded->progress.step), "rank {} holds other values",
              context.world.rank());
      const std::lock_guard lock(mutex_);
      result.step = loaded->progress.step;
      (context.world.rank() == 0 ? result.opens_of_first : result.most_opens) =
          std::max(opens, context.world.rank() == 0 ? opens : result.most_opens);
    });
    return result;
  }

  ParameterTable table_;
  TestFolder folder_;
  FileSystem files_;
  std::mutex mutex_;
  std::vector<std::string> messages_;
};

TEST_F(OnAFileSystem, OpensOfARankDoNotGrowWithTheRanks) {
  std::vector<Loaded> loads;
  std::vector<double> opens_of_save;
  for (const int ranks : {4, 16, 64}) {
    const std::int64_t before = files_.calls(FileCall::kOpen);
    Save(ranks, ranks);
    opens_of_save.push_back(static_cast<double>(files_.calls(FileCall::kOpen) - before) / ranks);
    loads.push_back(Load(ranks));
    EXPECT_EQ(loads.back().step, ranks);
  }
  for (const Loaded& load : loads) {
    EXPECT_EQ(load.most_opens, loads.front().most_opens) << "a rank's own shard: its header, then its data";
    EXPECT_EQ(load.opens_of_first, loads.front().opens_of_first) << "manifest and index besides";
  }
  EXPECT_LE(loads.front().most_opens, 2);
  EXPECT_LE(opens_of_save[2], opens_of_save[0] + 1) << "a share of what collects the shards of a group";
  // 64 ranks are two groups: no thread opens the shards of all.
  EXPECT_LE(files_.most_of_a_thread(FileCall::kOpen), kCommitFan + 24);
}

TEST_F(OnAFileSystem, ADamagedIndexCostsRankZeroTheHeadersAndNoOtherRank) {
  Save(16, 1);
  WriteBytes(folder_ / "checkpoints/step-000001/index.bin", "nothing");
  const Loaded load = Load(16);
  EXPECT_EQ(load.step, 1);
  EXPECT_LE(load.most_opens, 2);
  ASSERT_EQ(messages_.size(), 1U);
  EXPECT_THAT(messages_[0], HasSubstr("--mend"));
}

TEST_F(OnAFileSystem, ThatIsSlowSavesAndResumes) {
  files_.set_delay(10);
  Save(4, 1);
  Save(4, 2);
  EXPECT_EQ(Load(4).step, 2);
  EXPECT_EQ(Load(1).step, 2);
  EXPECT_TRUE(messages_.empty());
}

TEST_F(OnAFileSystem, WithoutExchangeReplacesAStep) {
  files_.set_exchange(false);
  Save(4, 1);
  Save(2, 1);
  EXPECT_EQ(Load(4).step, 1);
  EXPECT_TRUE(messages_.empty());
}

TEST_F(OnAFileSystem, WithoutLocksOneJobRuns) {
  files_.set_locks(false);
  const RunLock lock(folder_ / "run");
  EXPECT_THROW(RunLock(folder_ / "run", "lock", {.patience = std::chrono::milliseconds(10)}), Error);
  EXPECT_GT(files_.calls(FileCall::kLock), 0);
}

TEST_F(OnAFileSystem, ThatFailsCostsASaveAndNoMore) {
  Save(2, 1);
  int failed = 0;
  std::int64_t step = 1;
  for (const FileCall call : {FileCall::kOpen, FileCall::kRead, FileCall::kWrite, FileCall::kSync, FileCall::kRename}) {
    for (const int error : {EIO, ESTALE, ENOSPC}) {
      for (int after = 0; after < 12; after += after < 4 ? 1 : 4) {
        files_.Strike({.call = call, .error = error, .after = after});
        messages_.clear();
        Save(2, ++step);
        const bool struck = files_.struck() > 0;
        files_.Strike({.times = 0});
        const Loaded load = Load(2);
        EXPECT_TRUE(load.step == step || (struck && !messages_.empty() && load.step < step))
            << "call " << static_cast<int>(call) << " errno " << error << " after " << after;
        failed += load.step < step ? 1 : 0;
      }
    }
  }
  EXPECT_GT(failed, 30);
}

TEST_F(OnAFileSystem, ThatIsBusyForAMomentIsAskedAgain) {
  Save(2, 1);
  for (const int error : {ESTALE, EAGAIN, ETIMEDOUT}) {
    for (const char* name : {"manifest.json", "index.bin", "shard-00001"}) {
      files_.Strike({.call = FileCall::kOpen, .error = error, .times = 2, .name = name});
      EXPECT_EQ(Load(2).step, 1);
      EXPECT_EQ(files_.struck(), 2);
    }
  }
  EXPECT_TRUE(messages_.empty());
}

TEST_F(OnAFileSystem, ShortWritesAndReadsAreFinished) {
  for (const FileCall call : {FileCall::kWrite, FileCall::kRead}) {
    files_.Strike({.call = call, .error = 0, .times = -1});
    Save(2, 1);
    EXPECT_EQ(Load(2).step, 1);
    EXPECT_GT(files_.struck(), 10);
    EXPECT_TRUE(messages_.empty());
  }
}

TEST_F(OnAFileSystem, ThatFailsWhenReadSendsAllToTheCheckpointBefore) {
  for (const int error : {EIO, ESTALE}) {
    Save(3, 1);
    Save(3, 2);
    files_.Strike({.call = FileCall::kRead, .error = error, .times = -1, .name = "step-000002/shard-00001"});
    messages_.clear();
    EXPECT_EQ(Load(3).step, 1);
    ASSERT_EQ(messages_.size(), 1U);
    EXPECT_THAT(messages_[0], HasSubstr("checkpoint of step 2 is not used"));
    files_.Strike({.times = 0});
    EXPECT_EQ(Load(3).step, 2);
  }
}

TEST_F(OnAFileSystem, AnAsynchronousSaveMakesNoCallOfItsOwnInAStep) {
  WithRanks(3, 1, [&](RankContext&, RunCheckpoints& checkpoints, RankState& state) {
    for (std::int64_t step = 1; step <= 3; ++step) {
      std::int64_t before = 0;
      for (const FileCall call : {FileCall::kOpen, FileCall::kRead, FileCall::kWrite, FileCall::kSync,
                                  FileCall::kRename, FileCall::kMakeFolder, FileCall::kLock}) {
        before += FileSystem::CallsOfThisThread(call);
      }
      checkpoints.Save({{.step = step}}, state.states());
      for (const FileCall call : {FileCall::kOpen, FileCall::kRead, FileCall::kWrite, FileCall::kSync,
                                  FileCall::kRename, FileCall::kMakeFolder, FileCall::kLock}) {
        before -= FileSystem::CallsOfThisThread(call);
      }
      EXPECT_EQ(before, 0) << "the thread that saves makes them";
    }
    checkpoints.Finish();
  });
}

}  // namespace
}  // namespace trireme
