// Runs in stages, and weights that are dumped for comparison.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/program.h"
#include "base/json_text.h"

namespace trireme {
namespace {

using testing::HasSubstr;

constexpr const char* kRecipe = R"(
[model]
family = "llama"
layers = 2
hidden = 16
heads = 2
vocabulary = 40
sequence = 16
[layout]
data = 2
micro_batch = 2
[batch]
global = 8
[optimizer]
schedule = { kind = "constant" }
[train]
samples = 64
)";

struct Step {
  double loss = 0;
  double batch = 0;
};

std::map<int, Step> StepsOf(const Workplace& place, const std::string& run) {
  std::map<int, Step> steps;
  for (const std::string& line : Lines(place.Read(run + "/metrics.jsonl"))) {
    const auto row = ParseJson(line);
    steps[row["step"]] = {row["loss"], row["global_batch"]};
  }
  return steps;
}

std::vector<std::string> Arguments(const std::string& run, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"train", "recipe.toml", "--run", run};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(Stages, LayoutsThatChangeOnTheWayTrainAsOneThatStays) {
  const Workplace place;
  place.Write("recipe.toml", kRecipe);
  ASSERT_EQ(place.Run(Arguments("plain", {})).code, 0);
  const Outcome staged = place.Run(Arguments(
      "staged", {"--set", "train.stages=16: layout.tensor=2, layout.data=1; 40: layout.zero=3, layout.micro_batch=1"}));
  ASSERT_EQ(staged.code, 0) << staged.err;
  EXPECT_THAT(staged.out, HasSubstr("stage 1 of 3, until sample 16: layout.tensor=2, layout.data=1"));
  EXPECT_THAT(staged.out, HasSubstr("stage 2 of 3, until sample 40: layout.zero=3, layout.micro_batch=1"));
  EXPECT_THAT(staged.out, HasSubstr("stage 3 of 3: the recipe's own settings"));
  const std::map<int, Step> plain = StepsOf(place, "plain");
  const std::map<int, Step> found = StepsOf(place, "staged");
  ASSERT_EQ(plain.size(), 8U);
  ASSERT_EQ(found.size(), 8U);
  for (const auto& [step, numbers] : plain) {
    EXPECT_NEAR(found.at(step).loss / numbers.loss, 1.0, 1e-5) << step;
  }
}

// One rank, then four, then the recipe's two: threads come and go under one command.
TEST(Stages, MayHaveOtherNumbersOfRanks) {
  const Workplace place;
  place.Write("recipe.toml", kRecipe);
  ASSERT_EQ(place.Run(Arguments("plain", {})).code, 0);
  const Outcome staged =
      place.Run(Arguments("staged", {"--set",
                                     "train.stages=16: layout.data=1; 40: layout.data=4, layout.zero=3, "
                                     "layout.micro_batch=1"}));
  ASSERT_EQ(staged.code, 0) << staged.err;
  EXPECT_THAT(staged.out, HasSubstr("on 4 ranks\n"));
  const std::map<int, Step> plain = StepsOf(place, "plain");
  const std::map<int, Step> found = StepsOf(place, "staged");
  ASSERT_EQ(found.size(), 8U);
  for (const auto& [step, numbers] : plain) {
    EXPECT_NEAR(found.at(step).loss / numbers.loss, 1.0, 1e-5) << step;
  }
}

// Batches of 4, then of 8 with sequences of half the length, then the recipe's. Stopped in each stage, the same command
// goes on there, to the same bits.
TEST(Stages, ARunThatIsStoppedGoesOnInItsStage) {
  const std::vector<std::string> stages = {
      "--set", "train.stages=8: batch.global=4, layout.micro_batch=1; 24: model.sequence=8"};
  const Workplace place;
  place.Write("recipe.toml", kRecipe);
  ASSERT_EQ(place.Run(Arguments("whole", stages)).code, 0);
  const std::map<int, Step> whole = StepsOf(place, "whole");
  ASSERT_EQ(whole.size(), 9U);  // 2 of 4 samples, 2 and 5 of 8
  EXPECT_EQ(whole.at(2).batch, 4);
  EXPECT_EQ(whole.at(3).batch, 8);
  std::vector<std::string> stopped = stages;
  for (const char* steps : {"1", "3", "4", "6"}) {
    stopped.resize(stages.size());
    stopped.insert(stopped.end(), {"--steps", steps});
    ASSERT_EQ(place.Run(Arguments("parts", stopped)).code, 0);
  }
  ASSERT_EQ(place.Run(Arguments("parts", stages)).code, 0);
  const std::map<int, Step> parts = StepsOf(place, "parts");
  ASSERT_EQ(parts.size(), whole.size());
  for (const auto& [step, numbers] : whole) {
    EXPECT_EQ(parts.at(step).loss, numbers.loss) << step;
  }
}

TEST(Stages, WhatCannotBeIsRefusedBeforeAnythingIsWritten) {
  const Workplace place;
  place.Write("recipe.toml", kRecipe);
  for (const auto& [stages, words] : {std::pair{"16: model.hidden=32", "'model.hidden' may not change"},
                                      {"16: layout.micro_batch=3", "layout.micro_batch"},
                                      {"640: batch.global=4", "the run ends at 64"}}) {
    const Outcome outcome = place.Run(Arguments("run", {"--set", fmt::format("train.stages={}", stages)}));
    EXPECT_EQ(outcome.code, 2) << stages;
    EXPECT_THAT(outcome.err, HasSubstr(words));
  }
  EXPECT_EQ(place.Run(Arguments("run", {"--no-checkpoint", "--set", "train.stages=16: batch.global=4"})).code, 2);
  EXPECT_FALSE(place.Has("run"));
}

// The bytes behind a safetensors header.
std::string WeightsOf(const std::string& file) {
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  return file.substr(8 + length);
}

TEST(Dump, WeightsBeforeAndAfterAStepOfEachRank) {
  const Workplace place;
  place.Write("recipe.toml", kRecipe);
  const Outcome outcome = place.Run(Arguments("run", {"--steps", "4", "--set", "log.dump_steps=2-3"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto weights = [&](int step, const char* when, int rank) {
    return WeightsOf(place.Read(fmt::format("run/dump/step-{:06}-{}-rank-{}.safetensors", step, when, rank)));
  };
  EXPECT_FALSE(place.Has("run/dump/step-000001-before-rank-0.safetensors"));
  EXPECT_FALSE(weights(2, "before", 0).empty());
  EXPECT_TRUE(weights(2, "before", 0) != weights(2, "after", 0));
  EXPECT_TRUE(weights(2, "after", 0) == weights(2, "after", 1)) << "data ranks hold alike";
  EXPECT_TRUE(weights(2, "after", 1) == weights(3, "before", 1));
  EXPECT_EQ(place.Run(Arguments("other", {"--set", "log.dump_steps=x"})).code, 2);
  // `checkpoint diff` says the same.
  const auto file = [](int step, const char* when) {
    return fmt::format("run/dump/step-{:06}-{}-rank-1.safetensors", step, when);
  };
  const Outcome equal = place.Run({"checkpoint", "diff", file(2, "after"), file(3, "before")});
  EXPECT_EQ(equal.code, 0) << equal.err;
  EXPECT_THAT(equal.out, HasSubstr("the weights are equal"));
  const Outcome moved = place.Run({"checkpoint", "diff", file(2, "before"), file(2, "after")});
  EXPECT_EQ(moved.code, 1);
  EXPECT_THAT(moved.out, HasSubstr("elements differ, by at most"));
  EXPECT_EQ(place.Run({"checkpoint", "diff", "run/dump", "run/dump"}).code, 0);
  const Outcome mixed = place.Run({"checkpoint", "diff", "run/dump", "run"});
  EXPECT_EQ(mixed.code, 2);
  EXPECT_THAT(mixed.err, HasSubstr("is no dump of weights"));
}

// A job script asks how many ranks the next stage has before it starts them.
TEST(Stages, TheNextNumberOfRanksIsTold) {
  const Workplace place;
  place.Write("recipe.toml", kRecipe);
  std::vector<std::string> asked = {"--set", "train.stages=16: layout.data=1; 40: layout.data=4, layout.micro_batch=1"};
  const auto next = [&] {
    std::vector<std::string> more = asked;
    more.push_back("--next-ranks");
    return place.Run(Arguments("run", more)).out;
  };
  EXPECT_EQ(next(), "1\n");
  EXPECT_FALSE(place.Has("run")) << "asking writes nothing";
  std::vector<std::string> some = asked;
  some.insert(some.end(), {"--steps", "3"});
  ASSERT_EQ(place.Run(Arguments("run", some)).code, 0);
  EXPECT_EQ(next(), "4\n");
  ASSERT_EQ(place.Run(Arguments("run", asked)).code, 0);
  EXPECT_EQ(next(), "2\n");
}

}  // namespace
}  // namespace trireme
