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

// The words of a line as a shell would see them, double quotes taken off.
std::vector<std::string> Words(const std::string& line) {
  std::vector<std::string> words;
  bool quoted = false;
  bool inside = false;
  for (const char letter : line) {
    if (letter == '"' || letter == '\'') {
      quoted = !quoted;
    } else if (letter == ' ' && !quoted) {
      inside = false;
    } else {
      if (!inside) {
        words.emplace_back();
      }
      inside = true;
      words.back() += letter;
    }
  }
  return words;
}

TEST(Help, ExamplesThatNeedNoFilesRunAsWritten) {
  const Workplace place;
  const std::vector<std::vector<std::string>> commands = {
      {"plan"}, {"model"}, {"schedule"}, {"data", "encode"}, {"data", "decode"}};
  for (const auto& command : commands) {
    std::vector<std::string> arguments = command;
    arguments.emplace_back("--help");
    int run = 0;
    for (const std::string& line : Lines(place.Run(arguments).out)) {
      if (line.starts_with("  trireme ")) {
        std::vector<std::string> words = Words(line);
        const Outcome outcome = place.Run({words.begin() + 1, words.end()});
        EXPECT_EQ(outcome.code, 0) << line << "\n" << outcome.err;
        ++run;
      }
    }
    EXPECT_GE(run, 1) << command.front();
  }
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
