// Every function of src that reads what others wrote has a fuzz target, or a reason why not: tests/fuzz/readers.txt.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace trireme {
namespace {

namespace fs = std::filesystem;
const fs::path kRoot = TRIREME_SOURCE_DIR;

std::string TextOf(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The names that headers declare: those that begin with Parse, Read, Load or Open, and such members of classes.
std::set<std::string> DeclaredReaders() {
  static const std::regex kReader(
      R"((?:^|\n)[ \t]*(?:static |virtual )?[A-Za-z_:][A-Za-z_:<>,*& 0-9]*[ &*]((?:Parse|Read|Load|Open)[A-Z][A-Za-z0-9]*)\()"
      R"(|\n  static (\w+) ((?:Load|Parse|FromText|FromFile))\()");
  std::set<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "src")) {
    if (entry.path().extension() != ".h") {
      continue;
    }
    const std::string text = TextOf(entry.path());
    for (std::sregex_iterator at(text.begin(), text.end(), kReader), end; at != end; ++at) {
      found.insert((*at)[1].matched ? (*at)[1].str() : (*at)[2].str() + "::" + (*at)[3].str());
    }
  }
  return found;
}

// Target of each reader, "-" where there is none.
std::map<std::string, std::string> ListedReaders() {
  std::istringstream lines(TextOf(kRoot / "tests/fuzz/readers.txt"));
  std::map<std::string, std::string> listed;
  bool by_other_name = false;
  for (std::string line; std::getline(lines, line);) {
    by_other_name = by_other_name || line == "# Readers of other names.";
    std::istringstream words(line);
    std::string name;
    std::string target;
    std::string reason;
    if (line.starts_with('#') || !(words >> name >> target)) {
      continue;
    }
    std::getline(words, reason);
    EXPECT_TRUE(target != "-" || reason.size() > 3) << name << " has no target and no reason";
    EXPECT_TRUE(listed.emplace((by_other_name ? "other " : "") + name, target).second) << name << " stands twice";
  }
  return listed;
}

TEST(FuzzTargets, CoverEveryReader) {
  const std::set<std::string> declared = DeclaredReaders();
  EXPECT_GT(declared.size(), 100U);
  const std::map<std::string, std::string> listed = ListedReaders();
  for (const std::string& name : declared) {
    EXPECT_TRUE(listed.contains(name)) << name << " has no line in tests/fuzz/readers.txt";
  }
  for (const auto& [name, target] : listed) {
    EXPECT_TRUE(name.starts_with("other ") || declared.contains(name)) << name << " is declared nowhere";
  }
}

TEST(FuzzTargets, AreThoseOfTheList) {
  std::set<std::string> listed;
  for (const auto& [name, target] : ListedReaders()) {
    if (target != "-") {
      listed.insert(target);
    }
  }
  std::set<std::string> with_corpus;
  for (const auto& entry : fs::directory_iterator(kRoot / "tests/fuzz/corpus")) {
    with_corpus.insert(entry.path().filename().string());
  }
  EXPECT_EQ(with_corpus, listed);
  std::set<std::string> built;
  const std::string rules = TextOf(kRoot / "tests/fuzz/CMakeLists.txt");
  const std::size_t begin = rules.find("set(targets ") + 12;
  std::istringstream words(rules.substr(begin, rules.find(')', begin) - begin));
  for (std::string word; words >> word;) {
    built.insert(word);
    EXPECT_TRUE(fs::exists(kRoot / "tests/fuzz" / (word + ".cc"))) << word;
  }
  EXPECT_EQ(built, listed);
}

}  // namespace
}  // namespace trireme
