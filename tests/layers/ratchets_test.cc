// What must not grow unnoticed: long files, wide interfaces, names that are compared outside of their registers. Who
// has a reason writes it down here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>

#include "layers/source_tree.h"

namespace trireme {
namespace {

constexpr std::size_t kUsualLines = 400;

// Files above kUsualLines and why they are one file.
const std::map<std::string, std::string>& LongFiles() {
  static const std::map<std::string, std::string> files = {
      {"src/train/zero_shard.cc", "gather, reduction and update of one shard share its waits"},
      {"src/comm/nccl_communicator.cc", "every collective and its way through host memory"},
      {"src/measure/rank_probe.cc", "one probe for each operation that is calibrated"},
      {"src/measure/calibrate.cc", "the order of a calibration and what it writes"},
      {"src/device/cuda/optimizer.cu", "one kernel for each update rule, with shared loads and stores"},
      {"src/checkpoint/gguf/gguf_model.cc", "which models llama.cpp computes, and their tensors in its order"},
      {"src/data/chat/jinja_render.cc", "one case for each node of a template"},
      {"src/data/chat/jinja_builtins.cc", "one function for each filter, test and method"},
      {"src/planner/queries/plan_answer.cc", "one case for each question"},
      {"src/lowering/block_backward.cc", "one rule for each operation of a block"},
      {"src/lowering/module_program.h", "one structure for each step of a program"},
      {"src/operate/run_checkpoints.cc", "saving, resuming and what either refuses or repeats"},
      {"src/cost/step_cost.cc", "memory, FLOPs and traffic of a step, each in its function"},
      {"src/report/run_reporter.cc", "one function for each file and line of a run"},
      {"src/nn/program_runner.cc", "one case for each step of a program"},
      {"src/operate/training_loop.cc", "the loop and its observers"},
  };
  return files;
}

TEST(Ratchets, FilesAboveTheUsualLengthAreListedWithAReason) {
  std::set<std::string> seen;
  for (const std::string& file : SourceFiles()) {
    const std::size_t lines = LinesOf(ReadText(kRoot / file)).size();
    EXPECT_TRUE(lines <= kUsualLines || LongFiles().contains(file))
        << file << " has " << lines << " lines: divide it by purpose, or list it with the reason";
    if (lines > kUsualLines) {
      seen.insert(file);
    }
  }
  for (const auto& [file, reason] : LongFiles()) {
    EXPECT_TRUE(seen.contains(file)) << file << " has " << kUsualLines << " lines or fewer: take it off the list";
    EXPECT_GT(reason.size(), 20U) << file;
  }
}

// A comment is a sentence, or a noun phrase that stands alone: it needs neither the line before it nor the declaration
// after it to be understood.
TEST(Ratchets, CommentsStandAlone) {
  static const std::regex leaning(R"(^\s*// (Of|The same|And|Likewise)\b)");
  for (const std::string& file : SourceFiles()) {
    for (const std::string& line : LinesOf(ReadText(kRoot / file))) {
      EXPECT_FALSE(std::regex_search(line, leaning)) << file << ": " << line;
    }
  }
}

// Virtual functions declared in a header, without destructors. An interface that grows makes every back end longer:
// edit the number with the change, and say in its commit why.
const std::map<std::string, int>& VirtualFunctions() {
  static const std::map<std::string, int> most = {
      {"src/device/ops.h", 37},
      {"src/comm/communicator.h", 29},
      {"src/device/device.h", 33},
      {"src/device/paced/paced_cluster.h", 13},
      {"src/operate/training_observer.h", 10},
      {"src/planner/pricing/price_model.h", 21},
  };
  return most;
}
constexpr int kFewVirtualFunctions = 9;

int VirtualFunctionsOf(const std::string& file) {
  static const std::regex declared(R"((^|\n)\s*(\[\[nodiscard\]\] )?virtual (?!~))");
  const std::string text = ReadText(kRoot / file);
  return static_cast<int>(std::distance(std::sregex_iterator(text.begin(), text.end(), declared), {}));
}

TEST(Ratchets, InterfacesDoNotGrowUnnoticed) {
  int interfaces = 0;
  for (const std::string& file : SourceFiles()) {
    const int functions = file.ends_with(".h") ? VirtualFunctionsOf(file) : 0;
    const auto known = VirtualFunctions().find(file);
    const int most = known == VirtualFunctions().end() ? kFewVirtualFunctions : known->second;
    EXPECT_LE(functions, most) << file << " declares " << functions << " virtual functions; " << most << " are allowed";
    interfaces += functions > 0 ? 1 : 0;
  }
  EXPECT_GT(interfaces, 10);
  for (const auto& [file, most] : VirtualFunctions()) {
    EXPECT_GT(VirtualFunctionsOf(file), 0) << file << " is no interface any more: take it off the list";
  }
}

// The names that a register has, as an alternative of a regular expression.
std::string NamesIn(const std::string& file, const std::regex& name) {
  const std::string text = ReadText(kRoot / file);
  std::string names;
  for (std::sregex_iterator at(text.begin(), text.end(), name), end; at != end; ++at) {
    names += (names.empty() ? "" : "|") + (*at)[1].str();
  }
  return names;
}

std::string FamilyNames() {
  std::string names;
  static const std::regex name(R"re(\.name = "(\w+)")re");
  for (const auto& entry : fs::directory_iterator(kRoot / "src/model")) {
    if (entry.path().extension() == ".cc") {
      const std::string found = NamesIn(fs::relative(entry.path(), kRoot).generic_string(), name);
      names += found.empty() ? "" : (names.empty() ? "" : "|") + found;
    }
  }
  return names;
}

std::string OptimizerNames() {
  static const std::regex row(R"re(\{\.name = "(\w+)")re");
  const std::string text = ReadText(kRoot / "src/run/optimizer_kind.h");
  std::string names;
  for (std::sregex_iterator found(text.begin(), text.end(), row), end; found != end; ++found) {
    names += (names.empty() ? "" : "|") + (*found)[1].str();
  }
  return names;
}

// What follows from a family or an optimizer is said where it is registered: ModelFamily and ModelConfig's choices, the
// tables of HuggingFaceFamily and GgufArchitecture, OptimizerTraits.
TEST(Ratchets, NamesOfFamiliesAndOptimizersAreComparedNowhere) {
  const std::string families = FamilyNames();
  const std::string optimizers = OptimizerNames();
  EXPECT_THAT(families, testing::HasSubstr("gemma2"));
  EXPECT_EQ(optimizers, "adamw|adafactor|lion|muon|sgd");
  const std::string names = "\"(" + families + "|" + optimizers + ")\"";
  const std::regex compared("[!=]= *(std::string(_view)?\\()?" + names + "|" + names + "\\)? *[!=]=");
  EXPECT_TRUE(std::regex_search(std::string(R"(if (model.family == "phi3") {)"), compared));
  EXPECT_TRUE(std::regex_search(std::string(R"(return "muon" != config.name;)"), compared));
  EXPECT_FALSE(std::regex_search(std::string(R"(std::string family = "gpt2";)"), compared));
  for (const std::string& file : SourceFiles()) {
    const std::string text = ReadText(kRoot / file);
    std::smatch found;
    EXPECT_FALSE(std::regex_search(text, found, compared)) << file << ": " << found.str();
  }
}

// Lines with a default that follows the case of an enumerator.
int DefaultsAfterEnumerators(const std::string& text) {
  static const std::regex enumerator(R"(^\s*case [\w:]*::k[A-Z]\w*:)");
  static const std::regex other(R"(^\s*case |\bswitch \()");
  static const std::regex otherwise(R"(^\s*default:)");
  int found = 0;
  bool after_enumerator = false;
  for (const std::string& line : LinesOf(text)) {
    found += after_enumerator && std::regex_search(line, otherwise) ? 1 : 0;
    after_enumerator = std::regex_search(line, enumerator) || (after_enumerator && !std::regex_search(line, other));
  }
  return found;
}

// Without a default the compiler names the switches that a new enumerator must go into. CUDA's sources too, which the
// compiler option does not reach.
TEST(Ratchets, SwitchesOverEnumerationsHaveNoDefault) {
  EXPECT_EQ(DefaultsAfterEnumerators("case Kind::kOne:\n  return 1;\n  default:\n"), 1);
  EXPECT_EQ(DefaultsAfterEnumerators("case Kind::kOne:\n  return 1;\n}\nswitch (c) {\n  default:\n"), 0);
  for (const std::string& file : SourceFiles()) {
    EXPECT_EQ(DefaultsAfterEnumerators(ReadText(kRoot / file)), 0) << file << ": name the enumerators that are left";
  }
}

// Presets compile files together, and the preset fuzz one by one: an alias of another file is not there then.
TEST(Ratchets, FilesDeclareTheAliasTheyUse) {
  static const std::regex used(R"((^|[^:\w])fs::)");
  EXPECT_TRUE(std::regex_search(std::string("Require(fs::exists(path))"), used));
  EXPECT_FALSE(std::regex_search(std::string("std::filesystem::exists(path)"), used));
  for (const std::string& file : SourceFiles()) {
    const std::string text = ReadText(kRoot / file);
    EXPECT_TRUE(!std::regex_search(text, used) || text.find("namespace fs = std::filesystem;") != std::string::npos)
        << file;
  }
}

// Which norms subtract the mean is said by ops/norm.h, not by each back end.
TEST(Ratchets, NoBackEndComparesKindsOfNorms) {
  static const std::regex compared("[!=]= NormKind::");
  for (const std::string& file : SourceFiles()) {
    if (file.starts_with("src/device/")) {
      EXPECT_FALSE(std::regex_search(ReadText(kRoot / file), compared)) << file << ": ask SubtractsMean";
    }
  }
}

}  // namespace
}  // namespace trireme
