#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "operate/serial_run.h"
#include "operate/watched_run.h"
#include "scratch_directory.h"

namespace trireme {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

class ResumedRun : public testing::Test {
 protected:
  ScratchDirectory scratch_;
  const std::string folder_ = scratch_ / "run";
};

TEST_F(ResumedRun, ConsumesItsSamplesWhateverTheBatch) {
  for (const auto& [batch, last_step, consumed] :
       std::vector<std::array<std::int64_t, 3>>{{16, 63, 808}, {64, 35, 840}}) {
    std::filesystem::remove_all(folder_);
    const Watched first = RunOn(TinyRun({"batch.global=8", "train.samples=800"}), folder_, 25);
    ASSERT_EQ(first.steps.back().consumed_samples, 200);
    const Watched rest = RunOn(TinyRun({fmt::format("batch.global={}", batch), "train.samples=800"}), folder_);
    ASSERT_FALSE(rest.steps.empty()) << batch;
    EXPECT_EQ(rest.steps.back().step, last_step);
    EXPECT_EQ(rest.steps.back().consumed_samples, consumed);
    EXPECT_EQ(rest.total_steps, last_step);
  }
}

TEST_F(ResumedRun, ConsumesItsSamplesWhateverTheRamp) {
  RunOn(TinyRun({"batch.global=8", "train.samples=400"}), folder_, 25);
  const Watched rest = RunOn(TinyRun({"batch.global=16", "batch.ramp_up.start=8", "batch.ramp_up.increment=4",
                                      "batch.ramp_up.samples=80", "train.samples=400"}),
                             folder_);
  std::vector<std::int64_t> batches;
  for (const StepResult& step : rest.steps) {
    batches.push_back(step.global_batch);
  }
  // 40 samples of 8, 40 of 12, and the rest whole.
  EXPECT_THAT(batches, ElementsAre(8, 8, 8, 8, 8, 12, 12, 12, 12, 16, 16, 16, 16, 16, 16, 16));
  EXPECT_EQ(rest.steps.back().consumed_samples, 200 + 5 * 8 + 4 * 12 + 7 * 16);
}

TEST_F(ResumedRun, KeepsItsLearningRateWhenBatchOrLengthChange) {
  const std::vector<std::string> common = {"optimizer.learning_rate=2e-3"};
  const auto with = [&](std::vector<std::string> keys) {
    keys.insert(keys.end(), common.begin(), common.end());
    return TinyRun(keys);
  };
  const Watched whole = RunOn(with({"batch.global=8", "train.steps=40"}), folder_ + "_whole");
  std::filesystem::remove_all(folder_ + "_whole");
  const double next = whole.steps[20].learning_rate;
  for (const char* change : {"batch.global=32", "train.steps=200", "train.samples=4000"}) {
    std::filesystem::remove_all(folder_);
    RunOn(with({"batch.global=8", "train.steps=40"}), folder_, 20);
    const Watched rest = RunOn(with({"batch.global=8", "train.steps=40", change}), folder_);
    EXPECT_DOUBLE_EQ(rest.steps.front().learning_rate, next) << change;
    EXPECT_LT(rest.steps.back().learning_rate, 2e-3 * 0.11) << change;
  }
}

TEST_F(ResumedRun, SaysWhatItsChangesMean) {
  RunOn(TinyRun({"batch.global=8", "train.samples=800"}), folder_, 25);
  const Watched rest =
      RunOn(TinyRun({"batch.global=16", "train.samples=800", "optimizer.learning_rate=1e-3"}), folder_, 2);
  EXPECT_THAT(rest.notes, Contains(HasSubstr("batch.global: 8 -> 16")));
  EXPECT_THAT(rest.notes, Contains(HasSubstr("the run now ends after 808 samples, at step 63")));
  EXPECT_THAT(rest.notes, Contains(HasSubstr("over the next 30 samples")));
  const Watched ended = RunOn(TinyRun({"batch.global=16", "train.samples=100"}), folder_);
  EXPECT_TRUE(ended.steps.empty());
  EXPECT_THAT(ended.notes, Contains(HasSubstr("nothing to do")));
}

TEST_F(ResumedRun, FollowsTheRecipeAtOnceWhenAsked) {
  RunOn(TinyRun({"batch.global=8", "train.steps=40", "optimizer.learning_rate=2e-3"}), folder_, 20);
  const std::vector<std::string> longer = {"batch.global=8", "train.steps=80", "optimizer.learning_rate=1e-3"};
  const Watched fresh = RunOn(TinyRun(longer), folder_ + "_fresh");
  std::filesystem::remove_all(folder_ + "_fresh");
  std::vector<std::string> asked = longer;
  asked.emplace_back("optimizer.schedule.on_resume=\"recipe\"");
  const Watched rest = RunOn(TinyRun(asked), folder_);
  ASSERT_EQ(rest.steps.size(), 60U);
  for (std::size_t i = 0; i < rest.steps.size(); ++i) {
    EXPECT_EQ(rest.steps[i].learning_rate, fresh.steps[20 + i].learning_rate);
  }
}

TEST_F(ResumedRun, CountsStepsThatItWasToldToSkipAsSkippedAndNotAsNan) {
  const Watched run = RunOn(TinyRun({"batch.global=2", "train.steps=6", "train.skip_steps=\"2-4\""}), folder_);
  EXPECT_EQ(run.last.skipped_steps, 3);
  EXPECT_EQ(run.last.nan_steps, 0);
}

// Makes a manifest one of version 1, which had neither the state of the schedule nor an index.
void MakeOld(std::string& text) {
  for (const char* const name : {"\"schedule\": {", "\"index\": {"}) {
    const std::size_t member = text.find(name);
    ASSERT_NE(member, std::string::npos) << name;
    const std::size_t end = text.find("},", member);
    ASSERT_NE(end, std::string::npos) << name;
    text.erase(member, end + 2 - member);
  }
  const std::string version = "\"version\": 3";
  const std::size_t at = text.find(version);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, version.size(), "\"version\": 1");
}

TEST_F(ResumedRun, OfACheckpointOfVersion1GoesOnFromItsRecipe) {
  const Watched first = RunOn(TinyRun({"batch.global=8", "train.steps=40"}), folder_, 20);
  const Watched whole = RunOn(TinyRun({"batch.global=8", "train.steps=40"}), folder_ + "_whole");
  std::filesystem::remove_all(folder_ + "_whole");
  EditManifest(folder_, MakeOld);
  const Watched rest = RunOn(TinyRun({"batch.global=8", "train.steps=80"}), folder_);
  ASSERT_EQ(rest.steps.size(), 60U);
  EXPECT_DOUBLE_EQ(rest.steps.front().learning_rate, whole.steps[20].learning_rate);
}

// --- random changes against a serial model -------------------------------------------------------------------------

class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  std::int64_t Between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  bool Odds(int in) { return Between(1, in) == 1; }
  template <typename T>
  T Of(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(Between(0, static_cast<std::int64_t>(all.size()) - 1))];
  }

 private:
  std::mt19937 engine_;
};

struct Choice {
  SerialRecipe recipe;
  std::string layout = "layout.data=1";
  std::string pipeline = "layout.pipeline=1";
  std::string zero = "layout.zero=0";
  std::string moments = "optimizer.moments=\"fp32\"";
};

std::vector<std::string> Keys(const Choice& choice) {
  const SerialRecipe& recipe = choice.recipe;
  std::vector<std::string> keys = {fmt::format("batch.global={}", recipe.batch),
                                   fmt::format("batch.ramp_up.start={}", recipe.ramp_start),
                                   fmt::format("batch.ramp_up.increment={}", recipe.ramp_increment),
                                   fmt::format("batch.ramp_up.samples={}", recipe.ramp_samples),
                                   fmt::format("train.steps={}", recipe.steps),
                                   fmt::format("train.samples={}", recipe.samples),
                                   fmt::format("optimizer.schedule.kind=\"{}\"", recipe.kind),
                                   fmt::format("optimizer.learning_rate={}", recipe.rate),
                                   fmt::format("optimizer.schedule.warmup_samples={}", recipe.warmup),
                                   fmt::format("optimizer.schedule.decay_samples={}", recipe.decay),
                                   fmt::format("optimizer.schedule.final={}", recipe.final_share),
                                   choice.layout,
                                   choice.pipeline,
                                   choice.zero,
                                   choice.moments};
  if (recipe.at_once) {
    keys.emplace_back("optimizer.schedule.on_resume=\"recipe\"");
  }
  if (recipe.bridge > 0) {
    keys.push_back(fmt::format("optimizer.schedule.bridge_samples={}", recipe.bridge));
  }
  return keys;
}

void ChangeBatch(Dice& dice, SerialRecipe& recipe) {
  recipe.batch = dice.Of<std::int64_t>({2, 4, 6, 8, 12, 16});
  recipe.ramp_start = recipe.ramp_increment = recipe.ramp_samples = 0;
  if (dice.Odds(2)) {
    recipe.ramp_start = 2;
    recipe.ramp_increment = recipe.batch > 2 ? dice.Of<std::int64_t>({2, recipe.batch - 2}) : 2;
    if ((recipe.batch - 2) % recipe.ramp_increment != 0) {
      recipe.ramp_increment = 2;
    }
    recipe.ramp_samples = dice.Between(1, 60);
  }
}

void ChangeLength(Dice& dice, SerialRecipe& recipe, const SerialRun* run) {
  const std::int64_t step = run == nullptr ? 0 : run->step();
  const std::int64_t consumed = run == nullptr ? 0 : run->consumed();
  recipe.steps = recipe.samples = 0;
  // Now and then an end that has been passed already.
  if (dice.Odds(2)) {
    recipe.steps = std::max<std::int64_t>(step + dice.Between(-1, 25), 1);
  } else {
    recipe.samples = std::max<std::int64_t>(consumed + dice.Between(-3, 150), 1);
  }
}

void ChangeRate(Dice& dice, SerialRecipe& recipe) {
  switch (dice.Between(0, 6)) {
    case 0:
      recipe.rate = dice.Of<double>({5e-4, 1e-3, 2e-3});
      break;
    case 1:
      recipe.kind = dice.Of<std::string>({"cosine", "linear", "constant", "wsd"});
      break;
    case 2:
      recipe.warmup = dice.Of<std::int64_t>({0, 10, 30});
      break;
    case 3:
      recipe.decay = dice.Of<std::int64_t>({0, 40, 100});
      break;
    case 4:
      recipe.final_share = dice.Of<double>({0.0, 0.1, 0.5});
      break;
    case 5:
      recipe.at_once = !recipe.at_once;
      break;
    default:
      recipe.bridge = dice.Of<std::int64_t>({0, 1, 25});
  }
}

void Change(Dice& dice, Choice& choice, const SerialRun* run) {
  for (std::int64_t changes = dice.Between(1, 3); changes > 0; --changes) {
    switch (dice.Between(0, 7)) {
      case 0:
      case 1:
        ChangeBatch(dice, choice.recipe);
        break;
      case 2:
      case 3:
        ChangeLength(dice, choice.recipe, run);
        break;
      case 4:
        ChangeRate(dice, choice.recipe);
        break;
      case 5:
        choice.layout = dice.Of<std::string>({"layout.data=1", "layout.data=2", "layout.tensor=2"});
        choice.pipeline = dice.Of<std::string>({"layout.pipeline=1", "layout.pipeline=2"});
        break;
      case 6:
        choice.zero = fmt::format("layout.zero={}", dice.Between(0, 3));
        break;
      default:
        choice.moments = dice.Of<std::string>({"optimizer.moments=\"fp32\"", "optimizer.moments=\"bf16\""});
    }
  }
}

// One session of the run and of its model; how many values differ. `what` describes the session.
void ExpectSession(const Watched& watched, SerialRun& model, std::int64_t stop_after, const std::string& what) {
  const std::int64_t first = model.consumed();
  const std::int64_t last_step = model.LastStep();
  std::size_t taken = 0;
  while (!model.Ended() && (stop_after == 0 || static_cast<std::int64_t>(taken) < stop_after)) {
    const SerialStep step = model.Step();
    ASSERT_LT(taken, watched.steps.size()) << what << "\nthe run ended before step " << step.step;
    const StepResult& real = watched.steps[taken++];
    ASSERT_EQ(real.step, step.step) << what;
    ASSERT_EQ(real.global_batch, step.batch) << what << "\nat step " << step.step;
    ASSERT_EQ(real.consumed_samples, step.consumed) << what << "\nat step " << step.step;
    ASSERT_NEAR(real.learning_rate, step.rate, 1e-9 * step.rate) << what << "\nat step " << step.step;
    ASSERT_TRUE(std::isfinite(real.loss));
  }
  ASSERT_EQ(watched.steps.size(), taken) << what << "\nthe run went on";
  ASSERT_TRUE(taken == 0 || watched.total_steps == last_step) << what << "\n" << watched.total_steps << " announced";
  for (std::int64_t sample = first; sample < model.consumed(); ++sample) {
    ASSERT_TRUE(watched.samples.contains(sample)) << what << "\nsample " << sample << " was left out";
  }
  ASSERT_TRUE(watched.samples.empty() || *watched.samples.begin() == first) << what;
}

// A small number of changes by default; TRIREME_RESUME_CHANGES says another.
TEST_F(ResumedRun, AgreesWithASerialModelAfterRandomChanges) {
  const char* const asked = std::getenv("TRIREME_RESUME_CHANGES");
  const int changes = asked == nullptr ? 40 : std::atoi(asked);
  int done = 0;
  for (unsigned chain = 1; done < changes; ++chain) {
    std::filesystem::remove_all(folder_);
    Dice dice(chain);
    Choice choice;
    ChangeBatch(dice, choice.recipe);
    ChangeLength(dice, choice.recipe, nullptr);
    SerialRun model(choice.recipe);
    std::string what = fmt::format("chain {}", chain);
    for (int session = 0; session < 6 && done < changes; ++session) {
      bool goes_on = true;
      if (session > 0) {
        Change(dice, choice, &model);
        goes_on = model.Resume(choice.recipe);
        ++done;
      }
      const std::int64_t stop_after = dice.Odds(4) ? 0 : dice.Between(1, 8);
      what += fmt::format("\nsession {}, stopped after {}: {}", session, stop_after, fmt::join(Keys(choice), " "));
      const Watched watched = RunOn(TinyRun(Keys(choice)), folder_, stop_after);
      std::filesystem::remove(folder_ + "/stop");
      if (goes_on) {
        ExpectSession(watched, model, stop_after, what);
      } else {
        ASSERT_TRUE(watched.steps.empty()) << what;
      }
      if (HasFatalFailure()) {
        return;
      }
    }
  }
  std::printf("%d changes on resume, none differs from the serial model\n", done);
}

}  // namespace
}  // namespace trireme
