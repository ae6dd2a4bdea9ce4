// The tables of ARCHITECTURE.md against the code: what each folder of src/ includes and links, and which headers from
// outside appear where. The document is the rule; this test is how it stays true.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "layers/source_tree.h"

namespace trireme {
namespace {

struct LayerRow {
  std::string folder;
  std::set<std::string> may_include;
};
struct OutsideRow {
  std::vector<std::string> headers;  // a name, or a folder with a slash at its end
  std::vector<std::string> places;   // beginnings of paths below src/ or "apps/"
};
struct Include {
  std::string file;  // "comm/communicator.h", or "apps/trireme/main.cc"
  std::string header;
  bool quoted = false;
};

// The words between backquotes or commas of a table's cell.
std::vector<std::string> Words(const std::string& cell) {
  std::vector<std::string> words;
  static const std::regex word("[A-Za-z0-9_+./*]+");
  for (std::sregex_iterator found(cell.begin(), cell.end(), word), end; found != end; ++found) {
    words.push_back(found->str());
  }
  return words;
}

// Rows of the table whose first heading is `heading`, cell by cell.
std::vector<std::vector<std::string>> Table(const std::string& heading) {
  std::istringstream lines(ReadText(kRoot / "ARCHITECTURE.md"));
  std::vector<std::vector<std::string>> rows;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("| " + heading + " |")) {
      inside = true;
      std::getline(lines, line);  // the rule below the heading
    } else if (inside && line.starts_with("|")) {
      std::vector<std::string> cells;
      std::istringstream parts(line.substr(1));
      for (std::string cell; std::getline(parts, cell, '|');) {
        cells.push_back(cell);
      }
      rows.push_back(cells);
    } else if (inside) {
      break;
    }
  }
  return rows;
}

std::vector<LayerRow> Layers() {
  std::vector<LayerRow> rows;
  for (const auto& cells : Table("folder")) {
    const std::vector<std::string> allowed = Words(cells.at(2));
    rows.push_back({.folder = Words(cells.at(0)).at(0), .may_include = {allowed.begin(), allowed.end()}});
  }
  return rows;
}

std::vector<OutsideRow> OutsideHeaders() {
  std::vector<OutsideRow> rows;
  for (const auto& cells : Table("headers from outside")) {
    rows.push_back({.headers = Words(cells.at(0)), .places = Words(cells.at(1))});
  }
  return rows;
}

std::vector<Include> AllIncludes() {
  std::vector<Include> includes;
  static const std::regex line(R"(^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"])", std::regex::multiline);
  static const std::set<std::string> kinds = {".h", ".cc", ".cu", ".cuh"};
  for (const fs::path& tree : {kRoot / "src", kRoot / "apps"}) {
    for (const auto& entry : fs::recursive_directory_iterator(tree)) {
      if (!entry.is_regular_file() || !kinds.contains(entry.path().extension())) {
        continue;
      }
      const fs::path below = tree.filename() == "src" ? tree : kRoot;
      const std::string text = ReadText(entry.path());
      for (std::sregex_iterator found(text.begin(), text.end(), line), end; found != end; ++found) {
        includes.push_back({.file = fs::relative(entry.path(), below).generic_string(),
                            .header = (*found)[2],
                            .quoted = (*found)[1] == "\""});
      }
    }
  }
  return includes;
}

std::string FolderOf(const std::string& path) { return path.substr(0, path.find('/')); }

TEST(Layers, TheTableNamesEveryFolderOnce) {
  std::vector<std::string> folders;
  for (const auto& entry : fs::directory_iterator(kRoot / "src")) {
    folders.push_back(entry.path().filename());
  }
  folders.push_back("apps");
  std::vector<std::string> rows;
  for (const LayerRow& row : Layers()) {
    rows.push_back(row.folder);
  }
  EXPECT_THAT(rows, testing::UnorderedElementsAreArray(folders));
}

TEST(Layers, AFolderIncludesOnlyFoldersAboveIt) {
  std::set<std::string> above;
  for (const LayerRow& row : Layers()) {
    for (const std::string& other : row.may_include) {
      EXPECT_TRUE(above.contains(other)) << row.folder << " may include " << other << ", which is no row above it";
    }
    above.insert(row.folder);
  }
}

TEST(Layers, EveryIncludeKeepsToTheTable) {
  std::map<std::string, std::set<std::string>> allowed;
  for (const LayerRow& row : Layers()) {
    allowed[row.folder] = row.may_include;
    allowed[row.folder].insert(row.folder);
  }
  const std::vector<Include> includes = AllIncludes();
  EXPECT_GT(includes.size(), 500U);
  for (const Include& include : includes) {
    if (!include.quoted) {
      continue;
    }
    const std::string from = FolderOf(include.file);
    EXPECT_TRUE(fs::exists(kRoot / "src" / include.header) || fs::exists(kRoot / include.header))
        << include.file << " includes \"" << include.header << "\": paths start below src/";
    EXPECT_TRUE(allowed[from].contains(FolderOf(include.header)))
        << include.file << " includes \"" << include.header << "\", which the row of " << from << " does not allow";
  }
}

TEST(Layers, FoldersOfThePlannerIncludeThoseBelowThem) {
  static const std::map<std::string, std::set<std::string>> allowed = {
      {"pricing", {"pricing"}},
      {"search", {"search", "pricing"}},
      {"queries", {"queries", "search", "pricing"}},
      {"validation", {"validation", "pricing"}},
  };
  const auto part_of = [](const std::string& path) { return FolderOf(path.substr(FolderOf(path).size() + 1)); };
  std::size_t inside = 0;
  for (const Include& include : AllIncludes()) {
    if (FolderOf(include.file) == "planner" && FolderOf(include.header) == "planner") {
      EXPECT_TRUE(allowed.at(part_of(include.file)).contains(part_of(include.header)))
          << include.file << " includes \"" << include.header << "\"";
      ++inside;
    }
  }
  EXPECT_GT(inside, 50U);
}

TEST(Layers, EveryLibraryLinksWhatItsRowAllows) {
  for (const LayerRow& row : Layers()) {
    const fs::path file = kRoot / "src" / row.folder / "CMakeLists.txt";
    if (row.folder == "apps" || !fs::exists(file)) {
      continue;
    }
    const std::string text = ReadText(file);
    std::smatch list;
    static const std::regex depends(R"(DEPENDS([a-z\s]*))");
    if (std::regex_search(text, list, depends)) {
      for (const std::string& folder : Words(list[1])) {
        EXPECT_TRUE(row.may_include.contains(folder)) << file << " links " << folder;
      }
    }
  }
}

TEST(Tests, FoldersMirrorThoseOfTheSource) {
  // Tests of the whole: not of one folder.
  const std::set<std::string> others = {"apps", "cmake",  "compositions", "compatibility", "cuda_on_cpu", "faults",
                                        "fuzz", "golden", "layers",       "oracle",        "parity",      "system"};
  std::set<std::string> folders;
  for (const auto& entry : fs::directory_iterator(kRoot / "src")) {
    folders.insert(entry.path().filename());
  }
  for (const std::string& folder : folders) {
    std::vector<std::string> programs;
    if (fs::exists(kRoot / "tests" / folder)) {
      for (const auto& entry : fs::directory_iterator(kRoot / "tests" / folder)) {
        if (entry.path().filename().string().ends_with("_test.cc")) {
          programs.push_back(entry.path().filename());
        }
      }
    }
    EXPECT_FALSE(programs.empty()) << "src/" << folder << " has no tests/" << folder << "/*_test.cc";
  }
  for (const auto& entry : fs::directory_iterator(kRoot / "tests")) {
    const std::string name = entry.path().filename();
    EXPECT_TRUE(!entry.is_directory() || folders.contains(name) || others.contains(name))
        << "tests/" << name << " mirrors no folder of src/";
  }
}

// docs/reference/regressions.md and the suite Regression name the same tests.
TEST(Tests, EveryRegressionStandsInTheDocument) {
  static const std::regex named(R"(`Regression\.([A-Za-z]+)`)");
  static const std::regex written(R"(TEST\(Regression, ([A-Za-z]+)\))");
  const auto names = [](const std::string& text, const std::regex& pattern) {
    std::set<std::string> found;
    for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) {
      found.insert((*at)[1]);
    }
    return found;
  };
  const std::set<std::string> in_document = names(ReadText(kRoot / "docs/reference/regressions.md"), named);
  EXPECT_GT(in_document.size(), 10U);
  EXPECT_EQ(in_document, names(ReadText(kRoot / "tests/parity/regression_test.cc"), written));
}

// Where the document names a planted fault, scripts/mutants plants it for the test of the same row.
TEST(Tests, EveryPlantedFaultOfTheDocumentIsInTheList) {
  static const std::regex named(R"(`([a-z0-9]+(_[a-z0-9]+)+)`)");
  const std::string list = ReadText(kRoot / "tests/mutants.txt");
  std::size_t found = 0;
  for (const std::string& line : LinesOf(ReadText(kRoot / "docs/reference/regressions.md"))) {
    for (std::sregex_iterator at(line.begin(), line.end(), named), end; line.starts_with("|") && at != end; ++at) {
      EXPECT_NE(list.find("\nmutant " + (*at)[1].str() + "\n"), std::string::npos) << (*at)[1];
      ++found;
    }
  }
  EXPECT_GT(found, 40U);
}

TEST(Tests, NoneIsRetriedAndNoneAssertsTheTimeOfAClock) {
  EXPECT_EQ(ReadText(kRoot / "CMakePresets.json").find("\"repeat\""), std::string::npos);
  static const std::regex asserted(R"((EXPECT|ASSERT)_[A-Z_]+\(.*(clock::now|Clock::now|elapsed))");
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "tests")) {
    if (entry.path().extension() != ".cc") {
      continue;
    }
    for (const std::string& line : LinesOf(ReadText(entry.path()))) {
      EXPECT_FALSE(std::regex_search(line, asserted)) << entry.path() << ": " << line;
    }
  }
}

TEST(Tests, TidyAndTheBenchmarksAreDefaultStages) {
  const std::string script = ReadText(kRoot / "scripts/test");
  const std::size_t start = script.find("default_stages=(");
  const std::string stages = script.substr(start, script.find(')', start) - start);
  EXPECT_NE(stages.find(" tidy "), std::string::npos);
  EXPECT_NE(stages.find(" benchmarks "), std::string::npos);
}

// A schedule's kind and a ZeRO stage say for themselves what follows from them (ScheduleKind, ZeroPolicy).
TEST(Policies, NoNameOfAScheduleAndNoStageOfZeroIsComparedElsewhere) {
  static const std::regex name(R"re([!=]= *"(gpipe|1f1b|interleaved|zero_bubble|zero_bubble_v)")re");
  static const std::regex stage(R"(\bzero\(?\)? *(==|!=|<=|>=|<|>) *[0-3]\b)");
  for (const fs::path& tree : {kRoot / "src", kRoot / "apps"}) {
    for (const auto& entry : fs::recursive_directory_iterator(tree)) {
      const std::string kind = entry.path().extension();
      if (kind != ".h" && kind != ".cc" && kind != ".cu") {
        continue;
      }
      const std::string text = ReadText(entry.path());
      EXPECT_FALSE(std::regex_search(text, name)) << entry.path() << ": ask its ScheduleKind";
      EXPECT_FALSE(std::regex_search(text, stage)) << entry.path() << ": ask ZeroShards(stage)";
    }
  }
}

// Which virtual stage lies where is the schedule's choice; StagePlacement alone computes it.
TEST(Policies, PlacementsAreComputedInOnePlace) {
  static const std::regex arithmetic(R"(\bchunk \* [\w.()]*(pipeline|stages)\b)");
  EXPECT_TRUE(std::regex_search("f(chunk * layout.pipeline + stage)", arithmetic));
  for (const fs::path& tree :
       {kRoot / "src/lowering", kRoot / "src/cost", kRoot / "src/nn", kRoot / "src/train", kRoot / "src/checkpoint",
        kRoot / "src/planner", kRoot / "src/operate", kRoot / "src/report"}) {
    for (const auto& entry : fs::recursive_directory_iterator(tree)) {
      if (entry.path().extension() != ".h" && entry.path().extension() != ".cc") {
        continue;
      }
      const std::string text = ReadText(entry.path());
      std::smatch found;
      EXPECT_FALSE(std::regex_search(text, found, arithmetic))
          << entry.path() << ": '" << found.str() << "': ask PlacementOf";
    }
  }
}

// docs/extending.md says how long the files of an example are: "`path` has 31" or "| `path` | 31, …".
TEST(Extending, ExamplesAreAsLongAsItSays) {
  static const std::regex claim(R"(`(src/[\w/]+\.cc)` (?:has|\|) (\d\d+))");
  const std::string text = ReadText(kRoot / "docs/extending.md");
  int claims = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), claim), end; it != end; ++it, ++claims) {
    EXPECT_EQ(LinesOf(ReadText(kRoot / (*it)[1].str())).size(), std::stoul((*it)[2])) << (*it)[1];
  }
  EXPECT_GE(claims, 2);
}

// A header of the standard library has neither a dot nor a slash in its name.
bool IsStandard(const std::string& header) { return header.find_first_of("./") == std::string::npos; }

bool Matches(const std::string& name, const std::string& pattern) {
  if (pattern.ends_with("/") || pattern.ends_with("*")) {
    return name.starts_with(pattern.substr(0, pattern.size() - (pattern.ends_with("*") ? 1 : 0)));
  }
  return name == pattern;
}

TEST(OutsideHeaders, AppearOnlyWhereTheTableSays) {
  const std::vector<OutsideRow> rows = OutsideHeaders();
  EXPECT_GT(rows.size(), 5U);
  for (const Include& include : AllIncludes()) {
    if (include.quoted || IsStandard(include.header)) {
      continue;
    }
    bool known = false;
    bool allowed = false;
    for (const OutsideRow& row : rows) {
      for (const std::string& header : row.headers) {
        if (!Matches(include.header, header)) {
          continue;
        }
        known = true;
        for (const std::string& place : row.places) {
          allowed = allowed || place == "anywhere" || Matches(include.file, place);
        }
      }
    }
    EXPECT_TRUE(known) << include.file << " includes <" << include.header << ">, which no row of the table names";
    EXPECT_TRUE(!known || allowed) << include.file << " includes <" << include.header << ">, which belongs elsewhere";
  }
}

// What is not named HOST is compiled for the planner's page too, where there is neither a file system nor a thread.
TEST(Layers, ThePlannersPageNeedsNeitherFilesNorThreads) {
  static const std::set<std::string> describing = {"base",     "topology", "model", "lowering",
                                                   "schedule", "run",      "cost",  "planner"};
  static const std::set<std::string> of_the_host = {"filesystem",         "fstream", "thread",   "mutex",
                                                    "condition_variable", "future",  "unistd.h", "fcntl.h"};
  static const std::regex list(R"(HOST([a-z0-9_./\s]*))");
  std::set<std::string> host;
  for (const std::string& folder : describing) {
    std::smatch found;
    const std::string text = ReadText(kRoot / "src" / folder / "CMakeLists.txt");
    if (std::regex_search(text, found, list)) {
      for (const std::string& file : Words(found[1])) {
        host.insert(folder + "/" + file);
      }
    }
  }
  EXPECT_TRUE(host.contains("planner/search/fan_out.cc"));
  for (const Include& include : AllIncludes()) {
    if (describing.contains(FolderOf(include.file)) && include.file.ends_with(".cc") && !host.contains(include.file)) {
      EXPECT_FALSE(of_the_host.contains(include.header)) << include.file << " includes <" << include.header << ">";
    }
  }
}

// Highway compiles a file once per instruction level: its guards alone are conditionals of the sources.
std::string WithoutHighwayGuards(const std::string& text) {
  static const std::regex guard(
      R"(^#if defined\(TRIREME_(\w+)\) == defined\(HWY_TARGET_TOGGLE\)\n#ifdef TRIREME_\1\n|^#if HWY_ONCE\n)",
      std::regex::multiline);
  return std::regex_replace(text, guard, "");
}

// host_device.h is shared with kernels; library_gaps.h adds what Emscripten's library lacks, clear_memory.cu an
// argument of CUDA 13.
TEST(Conditionals, OnlyThreeFilesHaveOneBesidesHighwaysGuards) {
  static const std::set<std::string> with_conditionals = {"host_device.h", "library_gaps.h", "clear_memory.cu"};
  const std::string architecture = ReadText(kRoot / "ARCHITECTURE.md");
  for (const std::string& file : with_conditionals) {
    EXPECT_NE(architecture.find(file + "`"), std::string::npos) << file;
  }
  static const std::regex conditional(R"(^[ \t]*#[ \t]*(if|ifdef|ifndef)\b)", std::regex::multiline);
  for (const fs::path& tree : {kRoot / "src", kRoot / "apps"}) {
    for (const auto& entry : fs::recursive_directory_iterator(tree)) {
      const std::string kind = entry.path().extension();
      const bool is_source = kind == ".h" || kind == ".cc" || kind == ".cu" || kind == ".cuh";
      if (is_source && !with_conditionals.contains(entry.path().filename())) {
        EXPECT_FALSE(std::regex_search(WithoutHighwayGuards(ReadText(entry.path())), conditional)) << entry.path();
      }
    }
  }
}

}  // namespace
}  // namespace trireme
