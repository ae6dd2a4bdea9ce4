// Every command line of the documents, read from them: each is parsed by the program, so that no option or command in
// them is unknown, and run where that takes seconds and needs nothing that the source tree has not.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>

#include "apps/program.h"

namespace trireme {
namespace {

// What is not run here beyond its options and keys, and which test runs it.
const std::map<std::string, std::string> kParsedOnly = {
    {"train", "takes minutes to days: run with --dry-run, which checks every key; apps/train_test.cc trains"},
    {"generate", "needs a trained run: apps/data_and_models_test.cc makes one and runs it"},
    {"evaluate", "needs a trained run: apps/data_and_models_test.cc makes one and runs it"},
    {"data", "needs a corpus: apps/data_and_models_test.cc and data/prepare_test.cc make one"},
    {"checkpoint", "needs a run: apps/train_test.cc and apps/data_and_models_test.cc make one"},
    {"diagnose", "needs a run: faults/ makes those that hang"},
    {"machine", "measures for minutes"},
    {"completion", "prints a script: apps/help_test.cc"},
    {"manual", "prints a page: apps/help_test.cc"},
};

struct Command {
  std::string place;   // README.md:47
  std::string text;    // from the subcommand on
  bool whole = false;  // a line of its own, not words within a sentence
};

std::vector<std::string> SourceLines(const std::string& path) {
  std::ifstream file(std::string(TRIREME_SOURCE_DIR) + "/" + path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> Documents() {
  std::vector<std::string> names = {"README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"};
  for (const auto& entry : std::filesystem::directory_iterator(std::string(TRIREME_SOURCE_DIR) + "/docs")) {
    if (entry.path().extension() == ".md") {
      names.push_back("docs/" + entry.path().filename().string());
    }
  }
  return names;
}

// From the subcommand to the comment, pipe or redirection that ends it; "" when the line runs no trireme.
std::string CommandIn(const std::string& line) {
  static const std::regex kProgram(R"((^|[ /(])trireme +([a-z].*))");
  std::smatch found;
  if (!std::regex_search(line, found, kProgram)) {
    return "";
  }
  std::string text = found[2];
  for (const char* end : {"  #", " # ", " | ", " > ", " 2>", " && "}) {
    text = text.substr(0, text.find(end));
  }
  return text;
}

void AddInline(const std::string& line, const std::string& place, std::vector<Command>& commands) {
  static const std::regex kSpan("`([^`]+)`");
  static const std::regex kTable(R"(^(plan|train|generate|evaluate|diagnose|schedule|machine) [A-Z-].*)");
  for (std::sregex_iterator it(line.begin(), line.end(), kSpan), end; it != end; ++it) {
    const std::string span = (*it)[1];
    if (span.starts_with("trireme ") || span.starts_with("build/cpu/trireme ")) {
      commands.push_back({.place = place, .text = CommandIn(span)});
    } else if (line.starts_with("|") && std::regex_match(span, kTable)) {
      commands.push_back({.place = place, .text = span, .whole = span.starts_with("plan --model")});
    }
  }
}

std::vector<Command> CommandsOf(const std::string& document) {
  std::vector<Command> commands;
  const std::vector<std::string> lines = SourceLines(document);
  bool fenced = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string place = fmt::format("{}:{}", document, i + 1);
    std::string line = lines[i];
    if (line.starts_with("```")) {
      fenced = !fenced;
      continue;
    }
    if (!fenced && !line.starts_with("    ")) {
      AddInline(line, place, commands);
      continue;
    }
    while (line.ends_with("\\") && i + 1 < lines.size()) {
      line.pop_back();
      line += " " + lines[++i];
    }
    if (std::string text = CommandIn(line); !text.empty()) {
      commands.push_back({.place = place, .text = std::move(text), .whole = true});
    }
  }
  std::erase_if(commands, [](const Command& command) { return command.text.empty(); });
  return commands;
}

// The words that a shell makes of it, with the documents' placeholders filled in.
std::vector<std::string> ShellWords(const std::string& text) {
  static const std::map<std::string, std::string> kPlaceholders = {{"M", "gpt2-124m"},
                                                                   {"C", "dgx-h100"},
                                                                   {"N", "1"},
                                                                   {"RECIPE", "recipes/quickstart.toml"},
                                                                   {"RUN", "runs/none"},
                                                                   {"TEXT", "words"},
                                                                   {"NAME", "1f1b"},
                                                                   {"…", ""},
                                                                   {"RUNS.csv", "tests/planner/own_runs.csv"},
                                                                   {"COMMAND", "plan"}};
  const std::string command = "set -f; cd '" TRIREME_SOURCE_DIR "'; printf '%s\\n' " + text;
  FILE* const shell = popen(("/bin/bash -c " +
                             [&] {
                               std::string quoted = "'";
                               for (const char letter : command) {
                                 quoted += letter == '\'' ? std::string(R"('\'')") : std::string(1, letter);
                               }
                               return quoted + "'";
                             }())
                                .c_str(),
                            "r");
  std::vector<std::string> words;
  std::array<char, 4096> line{};
  while (std::fgets(line.data(), line.size(), shell) != nullptr) {
    std::string word = line.data();
    word.pop_back();
    const auto placeholder = kPlaceholders.find(word);
    word = placeholder == kPlaceholders.end() ? word : placeholder->second;
    if (!word.empty()) {
      words.push_back(word);
    }
  }
  pclose(shell);
  return words;
}

Outcome InSourceTree(const std::vector<std::string>& arguments) {
  const Workplace place;
  for (const char* folder : {"recipes", "models", "clusters", "stacks", "tests"}) {
    std::filesystem::create_directory_symlink(std::string(TRIREME_SOURCE_DIR) + "/" + folder, place / folder);
  }
  return place.Run(arguments);
}

Outcome Parsed(const std::vector<std::string>& words) {
  std::vector<std::string> arguments = {"--check-arguments"};
  arguments.insert(arguments.end(), words.begin(), words.end());
  return InSourceTree(arguments);
}

TEST(Documents, HaveNoCommandLineThatTheProgramDoesNotKnow) {
  std::size_t parsed = 0;
  for (const std::string& document : Documents()) {
    for (const Command& command : CommandsOf(document)) {
      const Outcome outcome = Parsed(ShellWords(command.text));
      EXPECT_EQ(outcome.code, 0) << command.place << ": trireme " << command.text << "\n" << outcome.err;
      ++parsed;
    }
  }
  EXPECT_GE(parsed, 50U) << "the documents have more command lines than were found";
}

TEST(Documents, HaveCommandLinesThatRun) {
  std::size_t ran = 0;
  for (const std::string& document : Documents()) {
    for (const Command& command : CommandsOf(document)) {
      std::vector<std::string> words = ShellWords(command.text);
      const std::string& name = words.front();
      if (!command.whole || (kParsedOnly.contains(name) && name != "train")) {
        continue;
      }
      const bool has_recipe = name == "train" && words.size() > 1 &&
                              std::filesystem::exists(std::string(TRIREME_SOURCE_DIR) + "/" + words[1]);
      if (name == "train" && !has_recipe) {
        continue;  // a recipe of the reader's own
      }
      if (name == "train") {
        words.emplace_back("--dry-run");
      }
      const Outcome outcome = InSourceTree(words);
      EXPECT_EQ(outcome.code, 0) << command.place << ": trireme " << command.text << "\n" << outcome.err;
      ++ran;
    }
  }
  EXPECT_GE(ran, 12U);
}

TEST(Documents, AreNotReadBlindly) {
  EXPECT_EQ(Parsed({"plan", "--model", "gpt2-124m", "--clutser", "dgx-h100"}).code, 2);
  EXPECT_EQ(Parsed({"trian", "recipe.toml"}).code, 2);
  EXPECT_EQ(CommandIn("$ trireme schedule 1f1b --stages 2 | head"), "schedule 1f1b --stages 2");
  EXPECT_EQ(CommandIn("mpirun -n 2 build/cpu/trireme train r.toml --run x   # a comment"), "train r.toml --run x ");
}

}  // namespace
}  // namespace trireme
