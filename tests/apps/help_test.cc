#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/program.h"

namespace trireme {
namespace {

using testing::HasSubstr;

// Names listed under "Subcommands:" of a help text.
std::vector<std::string> Subcommands(const std::string& help) {
  std::vector<std::string> names;
  bool inside = false;
  for (const std::string& line : Lines(help)) {
    if (line.starts_with("Subcommands:")) {
      inside = true;
    } else if (inside && line.starts_with("  ") && line.size() > 2 && line[2] != ' ') {
      names.push_back(line.substr(2, line.find(' ', 2) - 2));
    } else if (inside && !line.starts_with(" ")) {
      break;
    }
  }
  return names;
}

// Asks for the help of a command and of all below it; returns how many there were.
int CheckHelp(const Workplace& place, const std::vector<std::string>& command) {
  std::vector<std::string> arguments = command;
  arguments.emplace_back("--help");
  const Outcome help = place.Run(arguments);
  EXPECT_EQ(help.code, 0) << testing::PrintToString(command);
  int count = 1;
  if (!command.empty()) {
    EXPECT_THAT(help.out, testing::ContainsRegex("Examples?:\n  (mpirun.*)?trireme "))
        << testing::PrintToString(command);
    EXPECT_THAT(help.out, HasSubstr("trireme " + command[0]));
  }
  for (const std::string& name : Subcommands(help.out)) {
    std::vector<std::string> below = command;
    below.push_back(name);
    count += CheckHelp(place, below);
  }
  return count;
}

TEST(Help, EveryCommandHasAnExample) {
  const Workplace place;
  const Outcome help = place.Run({"--help"});
  for (const char* name : {"train", "data", "checkpoint", "generate", "evaluate", "schedule"}) {
    EXPECT_THAT(Subcommands(help.out), testing::Contains(name));
  }
  EXPECT_GE(CheckHelp(place, {}), 19);
}

TEST(Help, AWrongCommandLineIsBadInput) {
  const Workplace place;
  EXPECT_EQ(place.Run({}).code, 2);
  EXPECT_EQ(place.Run({"trian"}).code, 2);
  EXPECT_EQ(place.Run({"train", "--no-such-option"}).code, 2);
  EXPECT_EQ(place.Run({"checkpoint", "inspect"}).code, 2);
  EXPECT_EQ(place.Run({"--version"}).code, 0);
}

TEST(Help, EveryKeyOfARecipeIsListed) {
  const Outcome keys = Workplace().Run({"train", "--help-keys"});
  EXPECT_EQ(keys.code, 0);
  for (const char* key : {"model.layers", "layout.tensor", "batch.global", "optimizer.learning_rate", "train.steps",
                          "data.source", "checkpoint.every", "validation.samples"}) {
    EXPECT_THAT(keys.out, HasSubstr(key));
  }
}

}  // namespace
}  // namespace trireme
