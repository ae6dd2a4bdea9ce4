// Law 2: a resumed run gives the bits of the run that was never interrupted. Law 3: a state saved under one layout is
// the same state under every other.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/error.h"
#include "comm/rank_runner.h"
#include "model/model_config.h"
#include "operate/run_checkpoints.h"
#include "operate/training_loop.h"
#include "parity/parity.h"

namespace trireme::parity {
namespace {

// (parameter, kind) -> whole fp32 values.
using WholeState = std::map<std::pair<std::string, int>, std::vector<float>>;

class CheckpointLaws : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "trireme_laws_" + std::to_string(::getpid());
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

void Collect(Trainer& trainer, std::mutex& mutex, WholeState& whole) {
  for (const OwnedState& state : trainer.JoinState()) {
    if (!state.saved) {
      continue;
    }
    std::vector<float> values(static_cast<std::size_t>(state.values.count()));
    CopyValues(trainer.device(), state.values, values.data());
    const Parameter& parameter = trainer.table().rows()[static_cast<std::size_t>(state.row)];
    const std::scoped_lock lock(mutex);
    auto& to = whole[{parameter.name, static_cast<int>(state.kind)}];
    const Shape& shape = state.shape.rank() > 0 ? state.shape : parameter.shape;
    to.resize(static_cast<std::size_t>(shape.count()), std::nanf(""));
    for (const SliceRun& run : state.runs) {
      for (std::int64_t i = 0; i < run.count; ++i) {
        float& place = to[static_cast<std::size_t>(run.global + i)];
        EXPECT_TRUE(std::isnan(place)) << parameter.name << ": an element is saved twice";
        place = values[static_cast<std::size_t>(run.local + i)];
      }
    }
  }
}

struct Part {
  int steps = 0;
  bool save = false;
  std::vector<double> losses;
  WholeState state;
};

// Loads what `folder` has, trains part.steps, saves when asked.
void RunPart(const RunConfig& config, const std::string& folder, Part& part) {
  Validate(config, config.layout.ranks());
  const auto source = OpenRunSource(config, "train");
  std::mutex mutex;
  RunThreadRanks(config.layout.ranks(), {.kind = "cpu"}, [&](RankContext& context) {
    Trainer trainer(config, context, {.train = source.get()});
    RunCheckpoints checkpoints({.folder = folder, .config = config, .message = {}, .hook = {}}, context.world,
                               context.device, trainer.table());
    if (const auto found = checkpoints.Load(trainer.JoinState())) {
      trainer.Restore({found->progress, found->progress.updates});
    }
    for (int step = 0; step < part.steps; ++step) {
      const double loss = trainer.Step().loss;
      if (context.world.rank() == 0) {
        part.losses.push_back(loss);
      }
    }
    Collect(trainer, mutex, part.state);
    if (part.save) {
      const Progress& progress = trainer.progress();
      checkpoints.Save({progress, progress.updates}, trainer.JoinState());
      checkpoints.Settle();
    }
  });
}

// The rest of `whole`, trained from what `first` saved in `folder`, gives the same losses and the same state.
void ExpectItGoesOnAs(const Part& whole, const Part& first, const RunConfig& config, const std::string& folder) {
  Part rest{.steps = whole.steps - first.steps};
  RunPart(config, folder, rest);
  std::vector<double> losses = first.losses;
  losses.insert(losses.end(), rest.losses.begin(), rest.losses.end());
  EXPECT_EQ(whole.losses, losses);
  EXPECT_TRUE(whole.state == rest.state);
}

std::vector<ParallelLayout> Layouts() {
  return {{},
          {.tensor = 2},
          {.pipeline = 2},
          {.data = 2, .zero = 1},
          {.data = 2, .zero = 2},
          {.data = 3, .zero = 3, .whole_below = 49},
          {.tensor = 3, .sequence_parallel = true},
          {.tensor = 2, .pipeline = 2, .data = 2, .zero = 1},
          {.pipeline = 2, .data = 2, .zero = 3, .schedule = "interleaved", .chunks = 2},
          {.tensor = 4, .data = 2, .zero = 2},
          {.pipeline = 4, .data = 2, .zero = 0, .schedule = "zero_bubble"},
          {.data = 4, .zero = 3, .shard_ranks = 2},
          {.context = 3, .zero = 1, .context_kind = ContextKind::kRing},
          {.tensor = 2, .context = 2, .data = 2, .zero = 3, .context_kind = ContextKind::kUlysses},
          {.tensor = 2, .data = 4, .zero = 3, .recompute = Recompute::kFull},
          {.pipeline = 2, .data = 2, .zero = 2, .schedule = "zero_bubble_v", .chunks = 2}};
}

TEST_F(CheckpointLaws, AResumedRunGivesTheBitsOfTheUninterruptedOne) {
  const std::vector<std::pair<const char*, ParallelLayout>> cases = {
      {"llama", Layouts()[7]}, {"gemma3", Layouts()[8]}, {"olmo2", Layouts().back()}, {"gpt_neox", Layouts()[0]}};
  for (const auto& [family, layout] : cases) {
    SCOPED_TRACE(family + (" " + layout.ToString()));
    RunConfig config = SmallRun(family);
    config.layout = layout;
    config.model.dropout = 0.1;
    config.batch = {.global = 12, .ramp_start = 4, .ramp_increment = 4, .ramp_samples = 24};
    Part whole{.steps = 6};
    RunPart(config, folder_ + "/none", whole);
    Part first{.steps = 3, .save = true};
    RunPart(config, folder_ + "/" + layout.ToString(), first);
    ExpectItGoesOnAs(whole, first, config, folder_ + "/" + layout.ToString());
  }
}

TEST_F(CheckpointLaws, AnyLayoutLoadsWhatAnyOtherSaved) {
  const std::vector<ParallelLayout> layouts = Layouts();
  for (std::size_t from = 0; from < layouts.size(); ++from) {
    // Families take turns.
    RunConfig config = SmallRun(ModelFamilies()[from % ModelFamilies().size()].name);
    config.layout = layouts[from];
    config.train.steps = 20;
    Part saved{.steps = 1, .save = true};
    const std::string folder = folder_ + "/" + std::to_string(from);
    RunPart(config, folder, saved);
    for (const ParallelLayout& layout : layouts) {
      SCOPED_TRACE(layouts[from].ToString() + " to " + layout.ToString());
      config.layout = layout;
      Part loaded;
      RunPart(config, folder, loaded);
      EXPECT_TRUE(saved.state == loaded.state);
    }
  }
}

TEST_F(CheckpointLaws, EveryOptimizersStateIsTheSameUnderEveryLayout) {
  const std::vector<ParallelLayout> layouts = Layouts();
  for (const char* optimizer : {"sgd", "lion", "adafactor", "muon"}) {
    RunConfig config = SmallRun("gpt2");
    config.optimizer.kind = FromWord<OptimizerKind>("optimizer", optimizer);
    config.layout = layouts[3];
    Part whole{.steps = 3};
    RunPart(config, folder_ + "/none", whole);
    Part first{.steps = 2, .save = true};
    const std::string folder = folder_ + "/" + optimizer;
    RunPart(config, folder, first);
    SCOPED_TRACE(optimizer);
    ExpectItGoesOnAs(whole, first, config, folder);
    for (const std::size_t layout : {0U, 1U, 5U, 7U}) {
      SCOPED_TRACE(layouts[layout].ToString());
      config.layout = layouts[layout];
      Part loaded;
      RunPart(config, folder, loaded);
      EXPECT_TRUE(first.state == loaded.state);
    }
  }
}

TEST_F(CheckpointLaws, AdaptersGoOnAndAreTheSameUnderEveryLayout) {
  const std::vector<ParallelLayout> layouts = Layouts();
  for (const char* dtype : {"fp32", "bf16"}) {
    RunConfig config = SmallRun("llama");
    config.model.adapter = {.rank = 3, .targets = "attention.qkv, mlp.out"};
    config.train.dtype = dtype;
    config.layout = layouts[7];
    Part whole{.steps = 4};
    RunPart(config, folder_ + "/none", whole);
    Part first{.steps = 2, .save = true};
    const std::string folder = folder_ + "/" + dtype;
    RunPart(config, folder, first);
    SCOPED_TRACE(dtype);
    ExpectItGoesOnAs(whole, first, config, folder);
    for (const std::size_t layout : {0U, 1U, 5U, 10U}) {
      SCOPED_TRACE(layouts[layout].ToString());
      config.layout = layouts[layout];
      Part loaded;
      RunPart(config, folder, loaded);
      EXPECT_TRUE(first.state == loaded.state);
    }
  }
}

RunConfig HalvedRun(const ParallelLayout& layout) {
  RunConfig config = SmallRun("gpt2");
  config.train.dtype = "bf16";
  config.layout = layout;
  return config;
}

bool FitsBFloat16(float value) { return static_cast<float>(BFloat16(value)) == value; }

TEST_F(CheckpointLaws, MastersOfBFloat16WeightsSurviveASaveToTheBit) {
  for (const std::size_t layout : {0U, 3U, 4U, 5U}) {
    SCOPED_TRACE(Layouts()[layout].ToString());
    const RunConfig config = HalvedRun(Layouts()[layout]);
    const std::string folder = folder_ + "/" + std::to_string(layout);
    Part whole{.steps = 4};
    RunPart(config, folder_ + "/none", whole);
    Part first{.steps = 2, .save = true};
    RunPart(config, folder, first);
    Part loaded;
    RunPart(config, folder, loaded);
    EXPECT_TRUE(first.state == loaded.state);
    ExpectItGoesOnAs(whole, first, config, folder);
    const auto& masters = loaded.state.at({"block.0.mlp.in.weight", static_cast<int>(StateKind::kMaster)});
    EXPECT_FALSE(std::all_of(masters.begin(), masters.end(), FitsBFloat16));
  }
}

WholeState Moments(const WholeState& whole) {
  WholeState moments = whole;
  std::erase_if(moments, [](const auto& each) { return each.first.second == static_cast<int>(StateKind::kMaster); });
  return moments;
}

TEST_F(CheckpointLaws, MomentsInBFloat16SurviveASaveToTheBitUnderAnyLayout) {
  const std::vector<ParallelLayout> layouts = Layouts();
  for (const std::size_t layout : {0U, 3U, 5U, 7U}) {
    SCOPED_TRACE(layouts[layout].ToString());
    RunConfig config = HalvedRun(layouts[layout]);
    config.optimizer.moments = "bf16";
    const std::string folder = folder_ + "/" + std::to_string(layout);
    Part whole{.steps = 4};
    RunPart(config, folder_ + "/none", whole);
    Part first{.steps = 2, .save = true};
    RunPart(config, folder, first);
    for (const auto& [name, values] : Moments(first.state)) {
      EXPECT_TRUE(std::all_of(values.begin(), values.end(), FitsBFloat16)) << name.first;
    }
    ExpectItGoesOnAs(whole, first, config, folder);
    config.layout = layouts[9];
    Part elsewhere;
    RunPart(config, folder, elsewhere);
    EXPECT_TRUE(first.state == elsewhere.state);
  }
}

TEST_F(CheckpointLaws, ARunGoesOnWithMomentsOfTheOtherType) {
  RunConfig config = HalvedRun({.data = 2, .zero = 1});
  Part saved{.steps = 2, .save = true};
  RunPart(config, folder_, saved);
  config.optimizer.moments = "bf16";
  Part narrow{.steps = 0};
  RunPart(config, folder_, narrow);
  WholeState rounded = Moments(saved.state);
  for (auto& [name, values] : rounded) {
    for (float& value : values) {
      value = static_cast<float>(BFloat16(value));
    }
  }
  EXPECT_FALSE(Moments(saved.state) == rounded);
  EXPECT_TRUE(Moments(narrow.state) == rounded);
  Part half{.steps = 1, .save = true};
  RunPart(config, folder_, half);
  config.optimizer.moments = "fp32";
  Part wide;
  RunPart(config, folder_, wide);
  EXPECT_TRUE(half.state == wide.state);
}

TEST_F(CheckpointLaws, ARunGoesOnWithItsStateInHostMemoryAndBack) {
  using Way = std::array<Offload, 2>;
  for (const std::size_t layout : {0U, 3U, 4U, 5U}) {
    for (const char* dtype : {"fp32", "bf16"}) {
      RunConfig config = HalvedRun(Layouts()[layout]);
      config.train.dtype = dtype;
      Part whole{.steps = 4};
      RunPart(config, folder_ + "/none", whole);
      for (const Way& way : {Way{Offload::kNone, Offload::kOptimizer}, Way{Offload::kOptimizer, Offload::kNone},
                             Way{Offload::kOptimizer, Offload::kFull}, Way{Offload::kFull, Offload::kNone}}) {
        SCOPED_TRACE(fmt::format("{} {} {} {}", dtype, config.layout.ToString(), Name(way[0]), Name(way[1])));
        const std::string folder = fmt::format("{}/{}-{}-{}-{}", folder_, dtype, layout, Name(way[0]), Name(way[1]));
        config.layout.offload = way[0];
        Part first{.steps = 2, .save = true};
        RunPart(config, folder, first);
        config.layout.offload = way[1];
        Part loaded;
        RunPart(config, folder, loaded);
        EXPECT_TRUE(first.state == loaded.state);
        ExpectItGoesOnAs(whole, first, config, folder);
        config.layout.offload = Offload::kNone;
      }
    }
  }
}

// Under one micro batch and under several.
TEST_F(CheckpointLaws, AskingForTheStateBetweenStepsChangesNoBit) {
  for (const int global : {4, 12}) {
    RunConfig config = HalvedRun({.data = 2, .zero = 1, .micro_batch = 2});
    config.batch.global = global;
    const auto source = OpenRunSource(config, "train");
    std::map<bool, std::vector<double>> losses;
    for (const bool asking : {false, true}) {
      RunThreadRanks(config.layout.ranks(), {.kind = "cpu"}, [&](RankContext& context) {
        Trainer trainer(config, context, {.train = source.get()});
        for (int step = 0; step < 3; ++step) {
          const double loss = trainer.Step().loss;
          if (context.world.rank() == 0) {
            losses[asking].push_back(loss);
          }
          if (asking) {
            trainer.JoinState();
            trainer.Restore(trainer.progress());
          }
        }
      });
    }
    EXPECT_EQ(losses[true], losses[false]);
  }
}

TEST_F(CheckpointLaws, AStateFromBeforeAStepIsNotRestored) {
  const RunConfig config = HalvedRun({});
  const auto source = OpenRunSource(config, "train");
  RunThreadRanks(1, {.kind = "cpu"}, [&](RankContext& context) {
    Trainer trainer(config, context, {.train = source.get()});
    trainer.JoinState();
    trainer.Step();
    EXPECT_THROW(trainer.Restore({}), Error);
    trainer.JoinState();
    EXPECT_NO_THROW(trainer.Restore({}));
  });
}

}  // namespace
}  // namespace trireme::parity
