// Laws under fp16 with loss scaling. Sums that layouts take in another order are rounded to 11 bits: losses agree
// within that.
#include <filesystem>
#include <mutex>

#include "base/error.h"
#include "comm/rank_runner.h"
#include "operate/training_loop.h"
#include "parity/parity.h"
#include "scratch_directory.h"

namespace trireme::parity {
namespace {

// What the Error says that a call throws, "" when it throws none.
template <typename Call>
std::string RefusalOf(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

constexpr double kTolerance = 1e-3;

RunConfig HalfRun(const std::string& family) {
  RunConfig config = SmallRun(family);
  config.train.dtype = "fp16";
  config.train.initial_loss_scale = 1024;
  config.train.loss_scale_window = 4;
  config.train.hysteresis = 1;
  return config;
}

int HalfSteps() { return std::max(2, LawSteps() / 2); }

void ExpectLossesOf(const Outcome& one, const Outcome& many) {
  EXPECT_THAT(many.accounting, testing::IsEmpty());
  EXPECT_TRUE(many.tied_copies_equal);
  ASSERT_EQ(one.losses.size(), many.losses.size());
  for (std::size_t step = 0; step < one.losses.size(); ++step) {
    EXPECT_NEAR(many.losses[step] / one.losses[step], 1.0, kTolerance) << step;
    EXPECT_NEAR(many.gradient_norms[step] / one.gradient_norms[step], 1.0, 10 * kTolerance) << step;
  }
}

TEST(LawsOfFloat16, LayoutsTrainAsOneRank) {
  for (const char* family : {"gpt2", "bloom", "llama"}) {
    RunConfig config = HalfRun(family);
    const Outcome one = Train({.config = OneRank(config), .steps = HalfSteps()});
    for (const ParallelLayout& layout :
         {ParallelLayout{.data = 2, .zero = 0, .micro_batch = 6},
          ParallelLayout{.tensor = 2, .pipeline = 2, .data = 2, .zero = 1, .sequence_parallel = true},
          ParallelLayout{.data = 2, .zero = 2, .offload = Offload::kOptimizer},
          ParallelLayout{.pipeline = 2, .data = 2, .zero = 3, .schedule = "zero_bubble"}}) {
      config.layout = layout;
      SCOPED_TRACE(std::string(family) + " " + layout.ToString());
      ExpectLossesOf(one, Train({.config = config, .steps = HalfSteps()}));
    }
  }
}

TEST(LawsOfFloat16, TheSameLayoutTwiceGivesTheSameBits) {
  RunConfig config = HalfRun("llama");
  config.layout = {.tensor = 2, .pipeline = 2, .data = 2, .zero = 1};
  config.train.deterministic = true;  // a GPU needs to be asked
  const Outcome once = Train({.config = config, .steps = HalfSteps()});
  const Outcome again = Train({.config = config, .steps = HalfSteps()});
  EXPECT_EQ(once.losses, again.losses);
  EXPECT_EQ(once.parameters, again.parameters);
}

// Losses and norms are those of training without a scale, to fp16's rounding of either.
TEST(LawsOfFloat16, LearnsAsFloatDoesAndShowsUnscaledNorms) {
  RunConfig config = HalfRun("gpt2");
  const Outcome half = Train({.config = config, .steps = HalfSteps(), .validate = true});
  config.train.dtype = "fp32";
  const Outcome whole = Train({.config = config, .steps = HalfSteps(), .validate = true});
  EXPECT_NE(half.losses, whole.losses);
  for (std::size_t step = 0; step < whole.losses.size(); ++step) {
    EXPECT_NEAR(half.losses[step] / whole.losses[step], 1.0, 2e-3) << step;
    EXPECT_NEAR(half.gradient_norms[step] / whole.gradient_norms[step], 1.0, 2e-2) << step;
  }
  EXPECT_NEAR(half.validation / whole.validation, 1.0, 2e-3);
}

// Without a scale the smallest gradients of this model are rounded to zero.
TEST(LawsOfFloat16, AScaleKeepsSmallGradients) {
  const auto zeros = [](double scale) {
    RunConfig config = HalfRun("gpt2");
    config.train.loss_scale = scale;
    config.train.count_zeros = true;
    config.model.initial_deviation = 0.002;
    std::int64_t found = 0;
    const auto source = OpenRunSource(config, "train");
    RunThreadRanks(1, {.kind = "cpu"}, [&](RankContext& context) {
      Trainer trainer(config, context, {.train = source.get()});
      found = trainer.Step().zeros;
    });
    return found;
  };
  EXPECT_LT(zeros(4096), zeros(1) / 2);
}

struct Watched {
  std::vector<StepFacts> steps;
  std::vector<std::string> notes;
};

class Watcher : public TrainingObserver {
 public:
  explicit Watcher(Watched& watched) : watched_(watched) {}
  void StepDone(const StepFacts& facts) override { watched_.steps.push_back(facts); }
  void Note(const std::string& message) override {
    const std::scoped_lock lock(mutex_);
    watched_.notes.push_back(message);
  }

 private:
  Watched& watched_;
  std::mutex mutex_;
};

// Trains in `folder` with a fault; every rank's trainer sees the numbers that the first one notes down.
Watched RunWith(const RunConfig& config, const std::string& folder, const std::string& drill) {
  Validate(config, config.layout.ranks());
  const auto source = OpenRunSource(config, "train");
  Watched watched;
  Watcher watcher(watched);
  std::filesystem::create_directories(folder + "/flight");
  RunThreadRanks(config.layout.ranks(), {.kind = "cpu"}, [&](RankContext& context) {
    RunTraining(config, context, {.train = source.get()}, {.run_folder = folder, .drill = ParseDrill(drill)}, &watcher);
  });
  return watched;
}

std::vector<double> LossesOf(const Watched& watched) {
  std::vector<double> losses;
  for (const StepFacts& facts : watched.steps) {
    losses.push_back(facts.result.loss);
  }
  return losses;
}

std::vector<double> ScalesOf(const Watched& watched) {
  std::vector<double> scales;
  for (const StepFacts& facts : watched.steps) {
    scales.push_back(facts.result.loss_scale);
  }
  return scales;
}

// One infinity in one rank's gradient: no rank updates, all lower the scale, and training goes on as one rank's that
// passes over the step.
TEST(LawsOfFloat16, AnOverflowOnOneRankIsSkippedByAll) {
  for (const ParallelLayout& layout :
       {ParallelLayout{.tensor = 2, .pipeline = 2, .data = 2, .zero = 1}, ParallelLayout{.data = 2, .zero = 3},
        ParallelLayout{.tensor = 2, .data = 2, .zero = 0}}) {
    SCOPED_TRACE(layout.ToString());
    const ScratchDirectory scratch;
    RunConfig config = HalfRun("gpt2");
    config.train.steps = 6;
    config.train.replica_check_every = 1;  // copies that differ would end the run
    config.layout = layout;
    const Watched many =
        RunWith(config, scratch / "many", fmt::format("rank={},step=3,what=overflow", layout.ranks() - 1));
    ASSERT_EQ(many.steps.size(), 6U);
    for (const StepFacts& facts : many.steps) {
      EXPECT_EQ(facts.result.skipped, facts.result.step == 3);
      EXPECT_EQ(facts.result.overflowed, facts.result.step == 3);
    }
    EXPECT_EQ(many.steps.back().skipped_steps, 1);
    EXPECT_EQ(many.steps.back().nan_steps, 0);
    EXPECT_THAT(ScalesOf(many), testing::ElementsAre(1024, 1024, 1024, 512, 512, 512));
    EXPECT_THAT(many.notes, testing::Contains(testing::HasSubstr(
                                "step 3: a gradient overflowed fp16 at a loss scale of 1024: no update; the scale is "
                                "512 from now on")));
    RunConfig serial = OneRank(config);
    serial.train.skip_steps = "3";
    const Watched one = RunWith(serial, scratch / "one", "");
    ASSERT_EQ(one.steps.size(), 5U);
    for (const StepFacts& facts : one.steps) {
      const StepResult& other = many.steps[static_cast<std::size_t>(facts.result.step) - 1].result;
      EXPECT_NEAR(other.loss / facts.result.loss, 1.0, kTolerance) << facts.result.step;
    }
  }
}

TEST(LawsOfFloat16, ALastingOverflowEndsTheRunAtTheLeastScale) {
  const ScratchDirectory scratch;
  RunConfig config = HalfRun("gpt2");
  config.train.steps = 6;
  config.train.initial_loss_scale = 1e20;  // beyond fp16, whatever the gradients are
  config.train.min_loss_scale = 2e19;
  config.layout = {.data = 2, .zero = 1};
  EXPECT_THAT(RefusalOf([&] { RunWith(config, scratch / "run", ""); }),
              testing::AllOf(testing::HasSubstr("step 4"), testing::HasSubstr("train.min_loss_scale = 2e+19")));
}

// The scale grows every second step, is lowered by an overflow, and the run is stopped in between.
TEST(LawsOfFloat16, AResumedRunGivesTheBitsOfTheUninterruptedOne) {
  const ScratchDirectory scratch;
  RunConfig config = HalfRun("llama");
  config.train.loss_scale_window = 2;
  config.train.hysteresis = 2;
  config.layout = {.tensor = 2, .data = 2, .zero = 2};
  const std::string drill = "rank=1,step=2,what=overflow";
  config.train.steps = 7;
  const Watched whole = RunWith(config, scratch / "whole", drill);
  ASSERT_THAT(ScalesOf(whole), testing::ElementsAre(1024, 1024, 1024, 1024, 2048, 2048, 4096));
  for (const int cut : {2, 3, 5}) {
    SCOPED_TRACE(cut);
    const std::string folder = scratch / std::to_string(cut);
    config.train.steps = cut;
    Watched parts = RunWith(config, folder, drill);
    config.train.steps = 7;
    const Watched rest = RunWith(config, folder, drill);
    parts.steps.insert(parts.steps.end(), rest.steps.begin(), rest.steps.end());
    EXPECT_EQ(LossesOf(parts), LossesOf(whole));
    EXPECT_EQ(ScalesOf(parts), ScalesOf(whole));
  }
}

// Saved under one layout, the scale goes on under another, and into fp16 from a run that had none.
TEST(LawsOfFloat16, AnotherLayoutGoesOnWithTheScale) {
  const ScratchDirectory scratch;
  RunConfig config = HalfRun("gpt2");
  config.train.loss_scale_window = 2;
  config.layout = {.tensor = 2, .data = 2, .zero = 3};
  config.train.steps = 5;
  const Watched whole = RunWith(config, scratch / "whole", "");
  config.train.steps = 3;
  RunWith(config, scratch / "cut", "");
  config.train.steps = 5;
  config.layout = {.pipeline = 2};
  const Watched rest = RunWith(config, scratch / "cut", "");
  ASSERT_EQ(rest.steps.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(rest.steps[i].result.loss_scale, whole.steps[i + 3].result.loss_scale);
    EXPECT_NEAR(rest.steps[i].result.loss / whole.steps[i + 3].result.loss, 1.0, kTolerance);
  }
  config.train.dtype = "bf16";
  config.train.steps = 2;
  RunWith(config, scratch / "brain", "");
  config.train.dtype = "fp16";
  config.train.steps = 3;
  EXPECT_THAT(ScalesOf(RunWith(config, scratch / "brain", "")), testing::ElementsAre(1024));
}

// What PowerSGD has left out follows the scale: with a scale that changes and one that does not it trains alike.
TEST(LawsOfFloat16, ErrorFeedbackFollowsTheScale) {
  RunConfig config = HalfRun("gpt2");
  config.layout = {.data = 2, .zero = 1};
  config.optimizer.powersgd_rank = 2;
  config.train.loss_scale_window = 2;
  const Outcome growing = Train({.config = config, .steps = 6});
  config.train.loss_scale = 1024;
  const Outcome constant = Train({.config = config, .steps = 6});
  for (std::size_t step = 0; step < growing.losses.size(); ++step) {
    EXPECT_NEAR(growing.losses[step] / constant.losses[step], 1.0, kTolerance) << step;
    EXPECT_NEAR(growing.gradient_norms[step] / constant.gradient_norms[step], 1.0, 10 * kTolerance) << step;
  }
}

}  // namespace
}  // namespace trireme::parity
