#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/program.h"

namespace trireme {
namespace {

struct BadInput {
  std::string name;
  std::vector<std::string> options;  // of `train recipe.toml`
  std::vector<std::string> said;     // parts of the one message
  std::string recipe = TinyRecipe();
};

void PrintTo(const BadInput& input, std::ostream* out) { *out << input.name; }

class BadInputs : public testing::TestWithParam<BadInput> {};

TEST_P(BadInputs, GiveOneClearMessageAndCodeTwoAndWriteNothing) {
  const Workplace place;
  place.Write("recipe.toml", GetParam().recipe);
  std::vector<std::string> arguments = {"train", "recipe.toml", "--run", "run"};
  arguments.insert(arguments.end(), GetParam().options.begin(), GetParam().options.end());
  const Outcome outcome = place.Run(arguments);
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_EQ(outcome.messages(), 1U) << outcome.err;
  for (const std::string& part : GetParam().said) {
    EXPECT_THAT(outcome.err, testing::HasSubstr(part));
  }
  EXPECT_EQ(outcome.out, "");
  EXPECT_FALSE(place.Has("run"));
  EXPECT_FALSE(place.Has("runs"));
}

std::vector<std::string> Set(const std::vector<std::string>& settings) {
  std::vector<std::string> options;
  for (const std::string& setting : settings) {
    options.insert(options.end(), {"--set", setting});
  }
  return options;
}

const BadInput kInputs[] = {
    {"UniformStagesThatDoNotDivideTheLayers",
     Set({"model.layers=78", "layout.pipeline=12", "layout.tensor=1"}),
     {"78", "12", "13"}},
    {"HeadsThatTheTensorDegreeDoesNotDivide", Set({"layout.tensor=3"}), {"heads", "4", "3"}},
    {"AHiddenSizeThatTheHeadsDoNotDivide", Set({"model.heads=5"}), {"32", "5"}},
    {"ABatchThatTheDataRanksDoNotDivide", Set({"batch.global=7"}), {"batch.global = 7", "6", "8"}},
    {"ARampThatDoesNotDivideAtSomeStep",
     Set({"batch.ramp_up.start=2", "batch.ramp_up.increment=3", "batch.ramp_up.samples=100"}),
     {"5", "4", "6"}},
    {"AnotherNumberOfRanks", {"--ranks", "6"}, {"6", "8"}},
    {"AnUnknownKeyOnTheCommandLine", Set({"layout.tensr=2"}), {"layout.tensr", "layout.tensor"}},
    {"AnUnknownKeyInTheFile", {}, {"recipe.toml", "heds", "heads"}, "[model]\nheds = 4\n"},
    {"AValueOfAnotherType", Set({"train.steps=many"}), {"train.steps", "many"}},
    {"AnUnknownFamily", Set({"model.family=gpt3"}), {"gpt3", "gpt2"}},
    {"AnUnknownSchedule", Set({"layout.schedule=1f1c"}), {"1f1c", "1f1b"}},
    {"MalformedToml", {}, {"recipe.toml", "2"}, "[model]\nlayers = = 2\n"},
    {"AMissingDataFile", Set({"data.source=nowhere.txt"}), {"nowhere.txt"}},
    {"NegativeLayers", Set({"model.layers=-3"}), {"model.layers", "-3"}},
    {"AbsurdHiddenSize", Set({"model.hidden=1000000000000000000"}), {"model.hidden", "1000000000000000000"}},
    {"ANumberBeyondAllIntegers", Set({"model.hidden=99999999999999999999999"}), {"99999999999999999999999"}},
    {"ALearningRateThatIsNoNumber", Set({"optimizer.learning_rate=nan"}), {"optimizer.learning_rate"}},
    {"StepsThatAreNegative", {"--steps", "-3"}, {"-3"}},
    {"RanksThatAreNone", {"--ranks", "0"}, {"--ranks", "above 0", "0"}},
    {"WordsForNumbers", {"--steps", "many"}, {"--steps", "many", "whole number"}},
    {"AnOptionThatIsNotThere", {"--rnaks", "8"}, {"--rnaks", "--ranks"}},
    {"OneWordTooMany", {"more.toml"}, {"more.toml"}},
    {"ALauncherWithoutASupervisor", {"--launcher", "mpirun -n 8"}, {"--launcher", "--supervise"}},
    {"ALauncherThatIsNotThere", {"--supervise", "--launcher", "no-such-launcher -n 8"}, {"no-such-launcher"}},
    {"ADrillOfNoRank", {"--inject", "rank=8,step=1,what=stop"}, {"rank = 8", "0 to 7"}},
    {"MoreThreadsThanAProcessHas", Set({"layout.data=65536", "batch.global=65536"}), {"262144", "4096", "mpirun"}},
    {"MoreMemoryThanThereIs",
     Set({"model.hidden=65536", "model.layers=1024", "model.heads=512"}),
     {"GiB of memory", "this machine has"}},
    {"AnUnknownTable", {}, {"modl", "model"}, "[modl]\nlayers = 4\n"},
    {"AnUnknownPreset", Set({"model.preset=gpt-5"}), {"gpt-5", "is unknown", "bloom-176b"}},
    {"ABlendOutOfStep", Set({"data.source=[\"a.bin\", 0.3]"}), {"weights and sources in turn"}},
    {"ADirectoryAsData", Set({"data.source=."}), {"'.'", "regular file"}},
    {"MoreRecomputedBlocksThanThereAre",
     Set({"layout.recompute=full", "layout.recompute_layers=3"}),
     {"layout.recompute_layers = 3", "1"}},
    {"ASampleLongerThanTheFile", Set({"data.source=recipe.toml", "model.sequence=4096"}), {"recipe.toml"}},
};

INSTANTIATE_TEST_SUITE_P(Train, BadInputs, testing::ValuesIn(kInputs), [](const auto& bad) { return bad.param.name; });

TEST(BadInput, AMissingRecipe) {
  const Workplace place;
  const Outcome outcome = place.Run({"train", "nowhere.toml"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.messages(), 1U) << outcome.err;
  EXPECT_THAT(outcome.err, testing::HasSubstr("nowhere.toml"));
  EXPECT_FALSE(place.Has("runs"));
}

TEST(BadInput, ADirectoryAsTheRecipe) {
  const Outcome outcome = Workplace().Run({"train", "."});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, testing::HasSubstr("is a directory"));
}

TEST(BadInput, AMisspeltCommandOffersTheNearest) {
  const Workplace place;
  EXPECT_THAT(place.Run({"trian", "recipe.toml"}).err, testing::HasSubstr("did you mean 'train'?"));
  EXPECT_THAT(place.Run({"data", "prepair"}).err, testing::HasSubstr("did you mean 'prepare'?"));
  for (const auto& line : std::vector<std::vector<std::string>>{{}, {"data"}, {"checkpoint", "inspect"}}) {
    EXPECT_EQ(place.Run(line).messages(), 1U) << testing::PrintToString(line);
  }
}

TEST(BadInput, WhatIsNoModelNoCheckpointAndNoDataset) {
  const Workplace place;
  place.Write("file.txt", "some text");
  const std::vector<std::vector<std::string>> lines = {
      {"generate", "nowhere", "--prompt", "x"},
      {"evaluate", "file.txt"},
      {"checkpoint", "inspect", "nowhere"},
      {"checkpoint", "export", "nowhere", "out"},
      {"checkpoint", "import", "nowhere", "out"},
      {"data", "inspect", "nowhere"},
      {"data", "prepare", "nowhere-*.txt", "--tokenizer", "bytes", "--output", "out"},
      {"data", "prepare", "file.txt", "--tokenizer", "nowhere.json", "--output", "out"},
      {"data", "encode", "x", "--tokenizer", "nowhere.json"},
      {"data", "train-tokenizer", "file.txt", "--pattern", "gtp2", "--output", "out"},
      {"schedule", "1f1c"},
      {"model", "gpt2-124n"},
      {"model", "."},
      {"model", "nowhere.toml"},
      {"model", "gpt2-124m", "--set", "layout.tensor=5"},
      {"model", "gpt2-124m", "--set", "layout.tensr=2"},
  };
  for (const auto& line : lines) {
    const Outcome outcome = place.Run(line);
    EXPECT_EQ(outcome.code, 2) << testing::PrintToString(line);
    EXPECT_EQ(outcome.messages(), 1U) << outcome.err;
    EXPECT_FALSE(place.Has("out")) << testing::PrintToString(line);
  }
}

}  // namespace
}  // namespace trireme
