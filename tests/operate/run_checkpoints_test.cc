#include "operate/run_checkpoints.h"

#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "checkpoint/saved_world.h"
#include "checkpoint/tools/reports.h"
#include "comm/rank_runner.h"
#include "operate/rank_state.h"

namespace trireme {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

RunConfig ConfigOf(const ParallelLayout& layout) {
  RunConfig config;
  config.model = TinyModel("gpt2");
  config.layout = layout;
  config.checkpoint.keep = 5;
  return config;
}

ParallelLayout Data(int data) {
  ParallelLayout layout;
  layout.data = data;
  layout.zero = 1;
  return layout;
}

ParallelLayout Tensors(int tensor) {
  ParallelLayout layout;
  layout.tensor = tensor;
  return layout;
}

class RunCheckpointsTest : public testing::Test {
 protected:
  RunCheckpointsTest() : table_(TinyModel("gpt2")) {}

  using Body = std::function<void(RankContext&, RunCheckpoints&)>;
  void WithRanks(const ParallelLayout& layout, const Body& body) {
    RunConfig config = ConfigOf(layout);
    config.model = table_.config();
    WithRanks(config, {}, body);
  }

  // `hook`: of rank 0.
  void WithRanks(const RunConfig& config, const SaveHook& hook, const Body& body) {
    RunThreadRanks(config.layout.ranks(), {.kind = "cpu"}, [&](RankContext& context) {
      RunCheckpoints checkpoints({.folder = folder_ / "checkpoints",
                                  .config = config,
                                  .message =
                                      [&](const std::string& text) {
                                        const std::lock_guard lock(mutex_);
                                        messages_.push_back(text);
                                      },
                                  .hook = context.world.rank() == 0 ? hook : SaveHook()},
                                 context.world, context.device, table_);
      body(context, checkpoints);
    });
  }

  void SaveSteps(const ParallelLayout& layout, const std::vector<std::int64_t>& steps) {
    WithRanks(layout, [&](RankContext& context, RunCheckpoints& checkpoints) {
      for (const std::int64_t step : steps) {
        RankState state(table_, layout, context.world.rank(), step);
        SavedProgress progress{{.step = step, .consumed_samples = 8 * step}, step - 1};
        progress.notes = {{"k", "v"}};
        checkpoints.Save(progress, state.states());
        // The snapshot is taken: what happens to the state now is not saved.
        state.Clear();
      }
      checkpoints.Settle();
    });
  }

  // The step that every rank of a layout loads; -1 when there is nothing.
  std::int64_t LoadStep(const ParallelLayout& layout, bool zero_moments = false) {
    std::vector<std::int64_t> steps(static_cast<std::size_t>(layout.ranks()), -1);
    WithRanks(layout, [&](RankContext& context, RunCheckpoints& checkpoints) {
      RankState state(table_, layout, context.world.rank(), 0);
      state.Clear();
      const auto loaded = checkpoints.Load(state.states());
      if (loaded) {
        steps[static_cast<std::size_t>(context.world.rank())] = loaded->progress.step;
        Require(state.Holds(zero_moments ? 3 : loaded->progress.step, zero_moments), "rank {} holds other values",
                context.world.rank());
      }
    });
    for (const std::int64_t step : steps) {
      EXPECT_EQ(step, steps[0]) << "ranks must agree";
    }
    return steps[0];
  }

  void FlipBit(const std::string& path, std::size_t from_end) {
    std::string bytes = ReadBytes(path);
    bytes[bytes.size() - from_end] = static_cast<char>(bytes[bytes.size() - from_end] ^ 16);
    WriteBytes(path, bytes);
  }

  ParameterTable table_;
  TestFolder folder_;
  std::mutex mutex_;
  std::vector<std::string> messages_;
};

TEST_F(RunCheckpointsTest, AnEmptyFolderLoadsNothing) { EXPECT_EQ(LoadStep(Data(2)), -1); }

TEST_F(RunCheckpointsTest, AnotherLayoutLoadsWhatOneSaved) {
  SaveSteps(Data(3), {10, 20});
  EXPECT_EQ(LoadStep(Data(3)), 20);
  EXPECT_EQ(LoadStep(Tensors(2)), 20);
  EXPECT_EQ(LoadStep(Data(1)), 20);
  EXPECT_THAT(messages_, IsEmpty());
}

TEST_F(RunCheckpointsTest, ProgressAndDifferencesComeBack) {
  SaveSteps(Data(2), {10});
  WithRanks(Tensors(2), [&](RankContext& context, RunCheckpoints& checkpoints) {
    RankState state(table_, Tensors(2), context.world.rank(), 0);
    const auto loaded = checkpoints.Load(state.states());
    Require(loaded.has_value(), "nothing was loaded");
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(loaded->progress.step, 10);
    EXPECT_EQ(loaded->progress.consumed_samples, 80);
    EXPECT_EQ(loaded->progress.updates, 9);
    EXPECT_EQ(loaded->progress.notes.at("k"), "v");
    EXPECT_THAT(loaded->differences, Contains("layout.tensor: 1 -> 2"));
    EXPECT_THAT(loaded->differences, Contains("layout.data: 2 -> 1"));
    EXPECT_FALSE(loaded->weights_only);
  });
}

TEST_F(RunCheckpointsTest, DamageThatOneRankFindsSendsAllToTheOneBefore) {
  SaveSteps(Data(2), {10, 20});
  // The last bytes of rank 1's shard: rank 0 never reads them.
  FlipBit(folder_ / "checkpoints/step-000020/shard-00001.safetensors", 3);
  EXPECT_EQ(LoadStep(Data(2)), 10);
  ASSERT_EQ(messages_.size(), 1U);
  EXPECT_THAT(messages_[0], HasSubstr("checkpoint of step 20 is not used"));
  EXPECT_THAT(messages_[0], HasSubstr("shard-00001.safetensors"));
}

TEST_F(RunCheckpointsTest, ADamagedManifestIsToldOnce) {
  SaveSteps(Data(2), {10, 20});
  FlipBit(folder_ / "checkpoints/step-000020/manifest.json", 100);
  EXPECT_EQ(LoadStep(Data(2)), 10);
  EXPECT_THAT(messages_, ElementsAre(HasSubstr("manifest.json")));
}

TEST_F(RunCheckpointsTest, ARunDoesNotStartOverWhenAllItsCheckpointsAreDamaged) {
  SaveSteps(Data(1), {10});
  FlipBit(folder_ / "checkpoints/step-000010/shard-00000.safetensors", 3);
  try {
    LoadStep(Data(1));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("none is good"));
  }
}

TEST_F(RunCheckpointsTest, WeightsAloneStartTheMomentsAtZero) {
  SaveSteps(Data(1), {3});
  ConvertCheckpoint(folder_ / "checkpoints", folder_ / "weights", {.weights_only = true});
  std::filesystem::remove_all(folder_ / "checkpoints");
  std::filesystem::rename(folder_ / "weights", folder_ / "checkpoints");
  EXPECT_EQ(LoadStep(Data(2), true), 0);
}

TEST_F(RunCheckpointsTest, AnotherModelIsRefused) {
  SaveSteps(Data(1), {3});
  ModelConfig wider = table_.config();
  wider.ffn = 96;
  table_ = ParameterTable(wider);
  EXPECT_THROW(LoadStep(Data(1)), Error);
}

TEST_F(RunCheckpointsTest, AStepIsSavedOnce) {
  int opened = 0;
  RunThreadRanks(1, {.kind = "cpu"}, [&](RankContext& context) {
    RunCheckpoints checkpoints({.folder = folder_ / "checkpoints",
                                .config = ConfigOf(Data(1)),
                                .hook = [&](SavePoint point) { opened += point == SavePoint::kOpen ? 1 : 0; }},
                               context.world, context.device, table_);
    const RankState state(table_, Data(1), 0, 3);
    checkpoints.Reserve(state.states());
    checkpoints.Save({{.step = 3}}, state.states());
    checkpoints.Save({{.step = 3}}, state.states());
    checkpoints.Settle();
    EXPECT_EQ(checkpoints.last_committed(), 3);
  });
  EXPECT_EQ(opened, 1);
}

// A file lies where the checkpoints belong, until the second try.
TEST_F(RunCheckpointsTest, TheLastSaveIsTriedAgainUntilThereIsRoom) {
  std::ofstream(folder_ / "checkpoints") << "a file in the way";
  const auto save = [&](double seconds, int given_up_after) {
    std::vector<bool> saved(2);
    WithRanks(Data(2), [&](RankContext& context, RunCheckpoints& checkpoints) {
      const int rank = context.world.rank();
      RankState state(table_, Data(2), rank, 5);
      int asked = 0;
      SavedProgress progress{{.step = 5}};
      progress.last = true;
      const bool there =
          checkpoints.SaveLast(progress, state.states(), {.seconds = seconds, .given_up = [&] {
                                                            if (rank == 0 && given_up_after < 0) {
                                                              std::filesystem::remove(folder_ / "checkpoints");
                                                            }
                                                            return rank == 1 && asked++ == given_up_after;
                                                          }});
      const std::lock_guard lock(mutex_);
      saved[static_cast<std::size_t>(rank)] = there;
    });
    return saved;
  };
  EXPECT_THAT(save(0, 0), ElementsAre(false, false));
  EXPECT_THAT(messages_, ElementsAre(HasSubstr("checkpoint of step 5 failed"), HasSubstr("gave up")));
  messages_.clear();
  EXPECT_THAT(save(1e6, 2), ElementsAre(false, false)) << "one rank was asked to give up";
  EXPECT_THAT(messages_, ElementsAre(HasSubstr("checkpoint of step 5 failed"), HasSubstr("trying again for"),
                                     HasSubstr("gave up")));
  messages_.clear();
  EXPECT_THAT(save(1e6, -1), ElementsAre(true, true));
  EXPECT_THAT(messages_, ElementsAre(HasSubstr("checkpoint of step 5 failed"), HasSubstr("trying again for"),
                                     HasSubstr("is saved after 2 tries")));
  EXPECT_EQ(LoadStep(Data(2)), 5);
}

TEST_F(RunCheckpointsTest, SavesThatTrainingWaitsForAreToldOnce) {
  SaveSteps(Data(2), {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});  // nothing happens between them but saves
  ASSERT_EQ(messages_.size(), 1U);
  EXPECT_THAT(messages_[0], HasSubstr("goes into waiting for checkpoints"));
  EXPECT_THAT(messages_[0], HasSubstr("raise checkpoint.every (now 0)"));
}

TEST_F(RunCheckpointsTest, SavesThatAreDoneInTimeAreNotSpokenOf) {
  WithRanks(Data(1), [&](RankContext& context, RunCheckpoints& checkpoints) {
    for (std::int64_t step = 1; step <= 10; ++step) {
      const RankState state(table_, Data(1), context.world.rank(), step);
      checkpoints.Save({{.step = step}}, state.states());
      checkpoints.Settle();  // the time of training, of which a save is no part
    }
  });
  EXPECT_THAT(messages_, IsEmpty());
}

TEST_F(RunCheckpointsTest, RanksThatShareFilesSaveWhileTheyTrain) {
  RunConfig config = ConfigOf(Data(5));
  config.checkpoint.ranks_per_file = 2;
  WithRanks(config, {}, [&](RankContext& context, RunCheckpoints& checkpoints) {
    for (std::int64_t step = 1; step <= 2; ++step) {
      RankState state(table_, Data(5), context.world.rank(), step);
      checkpoints.Save({{.step = step}}, state.states());
      state.Clear();
    }
    checkpoints.Finish();
  });
  EXPECT_THAT(messages_, IsEmpty());
  EXPECT_EQ(CheckpointReader(folder_ / "checkpoints/step-000002").shards(), 3);
  for (const int ranks : {5, 2, 1}) {
    EXPECT_EQ(LoadStep(Data(ranks)), 2);
  }
}

// Rank 0 makes the folder again and would wait for what rank 1 has written before.
TEST_F(RunCheckpointsTest, AFolderThatIsRemovedBetweenTheRanksCostsASaveAndNoWait) {
  for (const bool asynchronous : {true, false}) {
    RunConfig config = ConfigOf(Data(2));
    config.checkpoint.asynchronous = asynchronous;
    const std::string checkpoints_folder = folder_ / "checkpoints";
    const auto lose = [&](SavePoint point) {
      const std::string shard = checkpoints_folder + "/step-000002.tmp/" + ShardFileName(1);
      if (point == SavePoint::kSnapshot && !ListCheckpoints(checkpoints_folder).empty()) {
        while (!std::filesystem::exists(shard)) {
          std::this_thread::yield();
        }
        std::filesystem::remove_all(checkpoints_folder);
      }
    };
    WithRanks(config, lose, [&](RankContext& context, RunCheckpoints& checkpoints) {
      for (std::int64_t step = 1; step <= 3; ++step) {
        const RankState state(table_, Data(2), context.world.rank(), step);
        SavedProgress progress{{.step = step}};
        progress.last = step == 3;
        checkpoints.Save(progress, state.states());
        checkpoints.Settle();
      }
    });
    ASSERT_EQ(messages_.size(), 1U);
    EXPECT_THAT(messages_[0], HasSubstr("checkpoint of step 2 failed: the shard of rank 1 has been removed from '" +
                                        checkpoints_folder + "/step-000002.tmp'"));
    EXPECT_EQ(LoadStep(Data(1)), 3);
    messages_.clear();
    std::filesystem::remove_all(checkpoints_folder);
  }
}

TEST_F(RunCheckpointsTest, ARunsFolderThatIsGoneIsMadeAnewAndSpokenOf) {
  SaveSteps(Data(2), {1});
  std::filesystem::remove_all(folder_.path());
  SaveSteps(Data(2), {2});
  EXPECT_THAT(messages_, testing::ElementsAre(HasSubstr("'" + folder_.path() +
                                                        "' has been removed: the checkpoint of "
                                                        "step 2 makes it anew")));
  EXPECT_EQ(LoadStep(Data(1)), 2);
}

TEST_F(RunCheckpointsTest, CopiesThatOthersOwnAreLoadedAndNotSaved) {
  WithRanks(Data(2), [&](RankContext& context, RunCheckpoints& checkpoints) {
    // ZeRO 0: both ranks hold everything, the first one saves.
    RankState state(table_, Data(1), 0, 7);
    std::vector<OwnedState> states(state.states().begin(), state.states().end());
    for (OwnedState& each : states) {
      each.saved = context.world.rank() == 0;
    }
    checkpoints.Save({{.step = 7}}, states);
    checkpoints.Settle();
    context.world.Barrier();
    state.Clear();
    Require(checkpoints.Load(states).has_value() && state.Holds(7), "rank {} did not get its copy",
            context.world.rank());
  });
  EXPECT_THAT(messages_, IsEmpty());
}

}  // namespace
}  // namespace trireme
