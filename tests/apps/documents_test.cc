// Every command line of README, CONTRIBUTING, docs/ and docs/reference/, read from them. Those of trireme are run, in
// the order of the documents, in a folder that holds what they name: a corpus, a trained run, a downloaded model.
// Training is cut short: lines of one or two steps are run, the others with --dry-run, which reads every key. So are
// searches of many models or batches: they try micro batches of 1. A line that stands twice runs once. Scripts, presets
// and test programs that lines name must exist, with the options that are given to them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <regex>
#include <set>

#include "apps/program.h"

namespace trireme::documents {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Commands whose lines are only parsed here, and why.
const std::map<std::string, std::string> kOnlyParsed = {
    {"calibrate", "measures the machine for a minute; apps/calibrate_test.cc runs it"},
    {"machine", "measures the machine for a minute; apps/machine_test.cc runs it"},
    {"report", "needs the pages, which not every build has; scripts/test web runs it"},
    {"watch", "serves until it is interrupted; scripts/test web runs it"},
    {"chat", "talks with a person; apps/data_and_models_test.cc runs it"},
    {"bench", "trains for minutes; report/bench_test.cc runs it"},
    {"compare", "names runs of before and after; report/bench_test.cc runs it"}};

const std::string kTutorial = "docs/tutorial.md";

struct Command {
  std::string place;   // README.md:47
  std::string text;    // from the subcommand on
  bool whole = false;  // a command line; false: a mention in a sentence, which may leave out what it does not speak of
};

std::string Source(const std::string& path) { return std::string(TRIREME_SOURCE_DIR) + "/" + path; }

std::string SourceText(const std::string& path) {
  std::ifstream file(Source(path));
  return {std::istreambuf_iterator<char>(file), {}};
}

// Pages of docs/evidence are made by commands: their tables are no lines to copy.
std::vector<std::string> Documents() {
  std::vector<std::string> names;
  for (const char* folder : {"docs", "docs/reference"}) {
    for (const auto& entry : fs::directory_iterator(Source(folder))) {
      if (entry.path().extension() == ".md") {
        names.push_back(fmt::format("{}/{}", folder, entry.path().filename().string()));
      }
    }
  }
  std::sort(names.begin(), names.end());
  names.insert(names.begin(), {"README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md", "SECURITY.md"});
  return names;
}

// From the subcommand to the comment, pipe or redirection that ends it; "" when the line runs no trireme.
std::string CommandIn(const std::string& line) {
  static const std::regex kProgram(R"((^|[ /(])trireme +([a-z].*))");
  static const std::regex kEnd(R"( +(#|\||>|2>|&|;).*$)");
  std::smatch found;
  return std::regex_search(line, found, kProgram) ? std::regex_replace(found[2].str(), kEnd, "") : "";
}

struct Line {
  std::string place;
  std::string text;
  bool code = false;  // of a block of code; false: a span between ` and ` in a sentence or table
};

// Lines of code, with those that a backslash continues joined, and spans of code, of one document.
std::vector<Line> CodeOf(const std::string& document) {
  static const std::regex kSpan("`([^`]+)`");
  std::vector<Line> code;
  const std::vector<std::string> lines = Lines(SourceText(document));
  bool fenced = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string place = fmt::format("{}:{}", document, i + 1);
    std::string line = lines[i];
    if (line.starts_with("```")) {
      fenced = !fenced;
    } else if (fenced || line.starts_with("    ")) {
      while (line.ends_with("\\") && i + 1 < lines.size()) {
        line.pop_back();
        line += lines[++i];
      }
      code.push_back({.place = place, .text = line, .code = true});
    } else {
      for (std::sregex_iterator it(line.begin(), line.end(), kSpan), end; it != end; ++it) {
        code.push_back({.place = place, .text = (*it)[1]});
      }
    }
  }
  return code;
}

std::vector<Command> CommandsOf(const std::string& document) {
  // README's table of commands leaves out the program's name.
  static const std::regex kTable(R"(^(plan|train|generate|chat|evaluate|diagnose|schedule|completion) [A-Z-].*)");
  std::vector<Command> commands;
  for (const Line& line : CodeOf(document)) {
    std::string text = CommandIn(line.text);
    const bool row = !line.code && document == "README.md" && std::regex_match(line.text, kTable);
    if (row || !text.empty()) {
      commands.push_back({.place = line.place, .text = row ? line.text : text, .whole = line.code || row});
    }
  }
  return commands;
}

// The words that a shell makes of it, with the documents' placeholders and variables filled in.
std::vector<std::string> ShellWords(const std::string& text) {
  static const std::map<std::string, std::string> kPlaceholders = {
      {"M", "gpt2-124m"},   {"C", "dgx-h100"}, {"N", "1"},       {"RECIPE", "recipes/sample-30m.toml"},
      {"RUN", "runs/mine"}, {"TEXT", "words"}, {"…", ""},        {"RUNS.csv", "tests/planner/own_runs.csv"},
      {"COMMAND", "plan"},  {"NAME", "1f1b"},  {"SHELL", "bash"}};
  std::string script = "set -f -- 2 true; zero=1 group=a half=1 data=4 batch=16; printf '%s\\n' ";
  script += std::regex_replace(text, std::regex(R"(\$\(mktemp -d\))"), "runs/fresh");
  std::string quoted = "'";
  for (const char letter : script) {
    quoted += letter == '\'' ? std::string(R"('\'')") : std::string(1, letter);
  }
  FILE* const shell = popen(("/bin/bash -c " + quoted + "'").c_str(), "r");
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

std::string Prose() {
  std::string text;
  for (int i = 0; i < 400; ++i) {
    text += fmt::format("the quick brown fox number {} jumps over the lazy dog and {} others\n", i, i * 7 % 31);
  }
  return text;
}

// A Zstandard frame of one block that is stored as it is.
std::string ZstandardFrame(const std::string& text) {
  const auto little = [](std::size_t value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) {
      out += static_cast<char>(value >> (8 * i) & 0xff);
    }
    return out;
  };
  return "\x28\xb5\x2f\xfd\xa0" + little(text.size(), 4) + little(text.size() << 3 | 1, 3) + text;
}

// A folder with everything that the documents' lines name.
class DocumentsPlace : public Workplace {
 public:
  DocumentsPlace() {
    for (const char* folder : {"recipes", "models", "clusters", "stacks", "tests"}) {
      fs::create_directory_symlink(Source(folder), *this / folder);
    }
    for (const char* folder : {"corpus", "build/corpus", "downloads", "docs/evidence"}) {
      fs::create_directories(*this / folder);
    }
    std::string records;
    for (const std::string& line : Lines(Prose())) {
      records += fmt::format("{{\"text\": \"{}\"}}\n", line);
    }
    Write("corpus/part.jsonl.zst", ZstandardFrame(records));
    Write("build/corpus/sample.txt", Prose());
    Write("big.txt", Prose());
    Write("book.txt", Prose());
    Write("questions.txt", "the quick\nthe lazy\n");
    Write("ids.txt", "1 2 3 4\n");
    Write("arc_easy.jsonl", R"({"question": "What jumps?", "choices": ["the fox", "the dog"], "answer": "A"})");
    Write("recipe.toml", TinyRecipe());
    Must({"train", "recipe.toml", "--run", "runs/mine", "--set", "model.sequence=128"});
    Must({"checkpoint", "export", "runs/mine", "downloads/gpt2"});
    Must({"data", "train-tokenizer", "book.txt", "--format", "lines", "--vocabulary", "300", "--output", "8k.json"});
    for (const char* name : {"a", "b"}) {
      Must({"data", "prepare", "book.txt", "--format", "lines", "--tokenizer", "8k.json", "--output", name});
    }
    fs::copy(*this / "downloads/gpt2", *this / "downloads/llama");
    fs::copy(*this / "downloads/gpt2", *this / "downloads/qwen3-0.6b");
    fs::copy(*this / "8k.json", *this / "downloads/qwen3-0.6b/tokenizer.json");
    Write("downloads/qwen3-0.6b/chat_template.jinja",
          "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
          "{{ 'assistant: ' if add_generation_prompt }}");
    Write("talks.jsonl",
          R"({"messages": [{"role": "user", "content": "the fox"}, {"role": "assistant", "content": "jumps"}]})");
    fs::copy(*this / "runs/mine", *this / "runs/sample-30m", fs::copy_options::recursive);
    fs::copy(*this / "runs/mine", *this / "runs/bisect-a", fs::copy_options::recursive);
    fs::create_directories(*this / "runs/mine/flight/death-001");
    for (const auto& entry : fs::directory_iterator(*this / "runs/bisect-a/flight")) {
      fs::copy(entry.path(), *this / "runs/mine/flight/death-001");
    }
  }

 private:
  void Must(const std::vector<std::string>& arguments) const {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.code, 0) << testing::PrintToString(arguments) << outcome.err;
  }
};

Outcome Parsed(const Workplace& place, std::vector<std::string> words) {
  words.insert(words.begin(), "--check-arguments");
  return place.Run(words);
}

// Whether a line trains for a moment: one or two steps of made-up data. One for many processes is none.
bool TrainsBriefly(const std::vector<std::string>& words) {
  const auto steps = std::find(words.begin(), words.end(), "--steps");
  return steps != words.end() && steps + 1 != words.end() && (steps[1] == "1" || steps[1] == "2") &&
         std::find(words.begin(), words.end(), "data.source=synthetic") != words.end();
}

// The line with what cuts it short.
std::vector<std::string> Shortened(std::vector<std::string> words) {
  const auto has = [&](const char* option) { return std::find(words.begin(), words.end(), option) != words.end(); };
  if (words.front() == "train" && !TrainsBriefly(words)) {
    words.emplace_back("--dry-run");
  }
  if (words.front() == "plan" && (has("--search-shape") || has("--ramp")) && !has("--max-micro-batch")) {
    words.insert(words.end(), {"--max-micro-batch", "1"});
  }
  return words;
}

TEST(Documents, HaveNoCommandLineThatTheProgramDoesNotKnow) {
  const Workplace place;
  fs::create_directory_symlink(Source("recipes"), place / "recipes");
  std::size_t parsed = 0;
  std::set<std::string> seen;
  for (const std::string& document : Documents()) {
    for (const Command& command : CommandsOf(document)) {
      if (!seen.insert(command.text).second) {
        continue;
      }
      const Outcome outcome = Parsed(place, ShellWords(command.text));
      const bool mention = !command.whole && outcome.err.find(" is required (") != std::string::npos;
      EXPECT_TRUE(outcome.code == 0 || mention) << command.place << ": trireme " << command.text << "\n" << outcome.err;
      ++parsed;
    }
  }
  EXPECT_GE(parsed, 50U) << "the documents have more command lines than were found";
}

// The recipe of docs/tutorial.md.
std::string TutorialRecipe() {
  static const std::regex block("```toml\n([^`]*)```");
  const std::string page = SourceText(kTutorial);
  std::smatch found;
  return std::regex_search(page, found, block) ? found[1].str() : "";
}

TEST(Documents, TheTutorialLeadsFromTextToText) {
  const Workplace place;
  place.Write("book.txt", Prose());
  place.Write("mine.toml", TutorialRecipe());
  std::string last;
  for (const Command& command : CommandsOf(kTutorial)) {
    std::vector<std::string> words = ShellWords(command.text);
    if (!command.whole) {
      continue;
    }
    if (words.front() == "train") {
      words.insert(words.end(), {"--steps", "2"});
    }
    const Outcome outcome = place.Run(words);
    EXPECT_EQ(outcome.code, 0) << command.place << ": trireme " << command.text << "\n" << outcome.err;
    last = words.front();
  }
  EXPECT_EQ(last, "evaluate") << "the page ends with a model that is scored";
}

TEST(Documents, HaveCommandLinesThatRun) {
  const DocumentsPlace place;
  std::size_t ran = 0;
  std::vector<std::string> documents = Documents();
  std::erase(documents, kTutorial);  // its lines build on each other: the test above runs them
  // Its tables take minutes: scripts/note-tables runs them, and the test of unknown options parses every one.
  std::erase(documents, "docs/reference/notes.md");
  std::set<std::string> seen;
  for (const std::string& document : documents) {
    for (const Command& command : CommandsOf(document)) {
      // What a command prepares may be gone when the line stands again: plans alone depend on nothing.
      if (command.text.starts_with("plan ") && !seen.insert(command.text).second) {
        continue;
      }
      const std::vector<std::string> words = Shortened(ShellWords(command.text));
      // A mention that is run says what it needs, or is whole.
      static const std::regex kNeeds(" is required \\(|name a cluster|needs a recipe");
      // `plan --page` needs what not every build has; apps/plan_test.cc runs it.
      const bool page = std::find(words.begin(), words.end(), "--page") != words.end();
      if (page || kOnlyParsed.contains(words.front())) {
        continue;
      }
      fs::remove_all(place / "runs/fresh");
      const Outcome outcome = place.Run(words);
      const bool mention = !command.whole && outcome.code == 2 && std::regex_search(outcome.err, kNeeds);
      EXPECT_TRUE(outcome.code == 0 || mention) << command.place << ": trireme " << command.text << "\n" << outcome.err;
      ran += outcome.code == 0 ? 1 : 0;
    }
  }
  EXPECT_GE(ran, 45U);
}

// "" when the scripts, presets and test programs that a line of code names exist and know its options.
std::string WhatIsMissing(const std::string& line) {
  static const std::regex kScript(R"(^(?:python3 )?((?:scripts|benchmarks|tests)/[\w./-]+)(.*)$)");
  static const std::regex kTest(R"(build/\w+/(?:tests/\w+|benchmarks)/(\w+))");
  static const std::regex kPreset(R"(^(?:cmake|ctest) .*--preset (\w[\w-]*))");
  static const std::regex kOption(R"( (--[a-z][\w-]*))");
  std::smatch found;
  if (std::regex_search(line, found, kPreset) &&
      SourceText("CMakePresets.json").find(fmt::format("\"name\": \"{}\"", found[1].str())) == std::string::npos) {
    return "no preset " + found[1].str();
  }
  if (std::regex_search(line, found, kTest)) {
    for (const auto& entry : fs::recursive_directory_iterator(
             Source(found[0].str().find("/tests/") == std::string::npos ? "benchmarks" : "tests"))) {
      if (entry.path().filename() == "CMakeLists.txt" &&
          SourceText(fs::relative(entry.path(), Source("")).string()).find(found[1].str()) != std::string::npos) {
        return "";
      }
    }
    return "no program " + found[1].str();
  }
  const std::string plain = std::regex_replace(line, std::regex(R"( +#.*$)"), "");
  if (!std::regex_match(plain, found, kScript)) {
    return "";
  }
  if (!fs::exists(Source(found[1]))) {
    return "no file " + found[1].str();
  }
  const std::string script = fs::is_directory(Source(found[1])) ? "" : SourceText(found[1]);
  const std::string arguments = found[2];
  for (std::sregex_iterator it(arguments.begin(), arguments.end(), kOption), end; it != end; ++it) {
    if (script.find((*it)[1].str()) == std::string::npos) {
      return found[1].str() + " knows no " + (*it)[1].str();
    }
  }
  static const std::regex kStage(R"(^scripts/test((?: [a-z][a-z-]*)+)$)");
  if (std::regex_match(plain, found, kStage)) {
    for (const std::string& stage : ShellWords(found[1])) {
      if (script.find("stage_" + stage + "()") == std::string::npos) {
        return "scripts/test has no stage " + stage;
      }
    }
  }
  return "";
}

// What scripts/recipe-keys writes: a row per key.
TEST(Documents, NameEveryRecipeKeyWithItsDefault) {
  const std::vector<std::string> help = Lines(Workplace().Run({"train", "--help-keys"}).out);
  ASSERT_GT(help.size(), 100U);
  const std::size_t default_at = help[0].find("default");
  const std::size_t width = help[0].find("meaning") - default_at;
  const std::string page = SourceText("docs/reference/keys.md");
  for (auto line = help.begin() + 1; line != help.end(); ++line) {
    const std::string key = line->substr(0, line->find(' '));
    const std::size_t start = std::max(default_at, key.size() + 1);  // a long key moves the others
    const std::size_t end =
        (*line)[start] == '"' ? line->find('"', start + 1) + 2 : start + width;  // or a long default
    std::string value = line->substr(start, end - start);
    value.erase(value.find_last_not_of(' ') + 1);
    const std::size_t says = line->find_first_not_of(' ', end);
    const std::string meaning = std::regex_replace(line->substr(says), std::regex(R"(\|)"), R"(\|)");
    const std::string row = fmt::format("| `{}` | {} | {} |\n", key, value.empty() ? "" : "`" + value + "`", meaning);
    EXPECT_NE(page.find(row), std::string::npos) << row << "is missing: scripts/recipe-keys writes the page";
  }
  const std::vector<std::string> lines = Lines(page);
  const auto rows = std::count_if(lines.begin(), lines.end(), [](const auto& line) { return line.starts_with("| `"); });
  EXPECT_EQ(rows, static_cast<std::ptrdiff_t>(help.size()) - 1) << "keys that are gone";
}

TEST(Documents, NameScriptsPresetsAndProgramsThatExist) {
  for (const std::string& document : Documents()) {
    for (const Line& line : CodeOf(document)) {
      EXPECT_EQ(WhatIsMissing(line.text), "") << line.place << ": " << line.text;
    }
  }
}

TEST(Documents, AreNotReadBlindly) {
  const Workplace place;
  EXPECT_EQ(Parsed(place, {"plan", "--model", "gpt2-124m", "--cluster", "dgx-h100"}).code, 0);
  EXPECT_EQ(Parsed(place, {"plan", "--model", "gpt2-124m", "--clutser", "dgx-h100"}).code, 2);
  EXPECT_EQ(Parsed(place, {"plan", "--nodes", "-3"}).code, 2);
  EXPECT_EQ(Parsed(place, {"trian", "recipe.toml"}).code, 2);
  EXPECT_EQ(CommandIn("$ trireme schedule 1f1b --stages 2 | head"), "schedule 1f1b --stages 2");
  EXPECT_EQ(CommandIn("mpirun -n 2 build/cpu/trireme train r.toml --run x   # a comment"), "train r.toml --run x");
  EXPECT_EQ(CommandIn("python3 compare.py --trireme build/cuda/trireme"), "");
  EXPECT_THAT(WhatIsMissing("scripts/test --gpus"), HasSubstr("knows no --gpus"));
  EXPECT_THAT(WhatIsMissing("scripts/test format cpus"), HasSubstr("no stage cpus"));
  EXPECT_THAT(WhatIsMissing("scripts/tests"), HasSubstr("no file"));
  EXPECT_THAT(WhatIsMissing("cmake --workflow --preset gpu"), HasSubstr("no preset gpu"));
  EXPECT_THAT(WhatIsMissing("build/cpu/tests/parity/parity_tests"), HasSubstr("no program"));
}

}  // namespace
}  // namespace trireme::documents
