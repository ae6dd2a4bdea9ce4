#include "measure/chosen_engines.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "message_of.h"

namespace trireme {
namespace {

using test::MessageOf;
using testing::HasSubstr;

class ChosenEngines : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "trireme_engines_" + std::to_string(::getpid());
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path File() const {
    const auto entry = std::filesystem::directory_iterator(folder_);
    EXPECT_NE(entry, std::filesystem::directory_iterator());
    return entry->path();
  }
  std::string Line(int number) const {
    std::ifstream file(File());
    std::string line;
    for (int i = 0; i < number; ++i) {
      std::getline(file, line);
    }
    return line;
  }
  std::string folder_;
};

// A measurement on a machine whose cores other processes had for a share of the time.
std::function<EngineMeasurement()> MeasuredWhile(double waited) {
  return [waited] { return EngineMeasurement{.table = FixedEngines(), .waited = waited}; };
}

TEST_F(ChosenEngines, AreMeasuredOnceAndRemembered) {
  EXPECT_EQ(RememberedEngines(1, folder_), "");
  const std::string first = FastestEnginesHere(1, folder_, MeasuredWhile(0));
  EXPECT_EQ(EngineTable::Parse(first).ToString(), first);
  EXPECT_EQ(Line(2), first);
  EXPECT_EQ(RememberedEngines(1, folder_), first);
  // Another table in the file shows that the second call reads it.
  const std::string key = Line(1);
  const std::string other =
      first == "fp32=packed bf16=widened" ? "fp32=packed bf16=packed" : "fp32=packed bf16=widened";
  std::ofstream(File()) << key << '\n' << other << '\n';
  EXPECT_EQ(FastestEnginesHere(1, folder_, MeasuredWhile(0)), other);
  EXPECT_EQ(RememberedEngines(2, folder_), "") << "another number of threads is another measurement";
}

TEST_F(ChosenEngines, OnABusyMachineAreNotRemembered) {
  EXPECT_EQ(FastestEnginesHere(1, folder_, MeasuredWhile(0.4)), FixedEngines().ToString());
  EXPECT_EQ(RememberedEngines(1, folder_), "");
  FastestEnginesHere(1, folder_, MeasuredWhile(0.02));
  EXPECT_EQ(RememberedEngines(1, folder_), FixedEngines().ToString());
  // What is remembered is not measured again.
  const auto again = []() -> EngineMeasurement { throw std::logic_error("measured"); };
  EXPECT_EQ(FastestEnginesHere(1, folder_, again), FixedEngines().ToString());
}

TEST_F(ChosenEngines, MeasuredHereAreOfThisMachine) {
  const EngineMeasurement measured = MeasureEngines(ChosenCpuLevel(), 1);
  EXPECT_EQ(RunnableEngines(measured.table, ChosenCpuLevel()), measured.table);
  EXPECT_GE(measured.waited, 0);
  EXPECT_LT(measured.waited, 1);
}

TEST_F(ChosenEngines, OfAFileThatMakesNoSenseAreMeasuredAnew) {
  FastestEnginesHere(1, folder_, MeasuredWhile(0));
  const std::string key = Line(1);
  EXPECT_THAT(key, HasSubstr("1 threads"));
  for (const std::string& text :
       {std::string(), key, key + "\nfp32=magic bf16=packed\n", std::string("other\nfp32=packed bf16=packed\n")}) {
    std::ofstream(File()) << text;
    EXPECT_EQ(RememberedEngines(1, folder_), "") << text;
    EXPECT_NE(FastestEnginesHere(1, folder_, MeasuredWhile(0)), "");
    EXPECT_NE(RememberedEngines(1, folder_), "");
  }
}

TEST_F(ChosenEngines, OfAnotherVersionOfALibraryAreOthers) {
  FastestEnginesHere(1, folder_, MeasuredWhile(0));
  const std::string key = Line(1) + ",";
  for (const ProductEngine engine : {ProductEngine::kOnednn, ProductEngine::kOpenblas, ProductEngine::kBlis}) {
    const std::string name(NameOf(engine));
    const std::string version = LibraryVersion(engine);
    EXPECT_EQ(key.find(name) == std::string::npos, version.empty()) << key;
    EXPECT_THAT(key, HasSubstr(version.empty() ? "," : fmt::format(", {} {},", name, version)));
  }
}

TEST_F(ChosenEngines, AreMeasuredWhereTheFolderCannotBeWritten) {
  EXPECT_NE(FastestEnginesHere(1, "/proc/no/such/folder"), "");
  EXPECT_NE(FastestEnginesHere(1, ""), "");
}

TEST_F(ChosenEngines, LieInTheUsersCache) {
  setenv("XDG_CACHE_HOME", "/somewhere", 1);
  EXPECT_EQ(EngineCacheFolder(), "/somewhere/trireme");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", "/home/of", 1);
  EXPECT_EQ(EngineCacheFolder(), "/home/of/.cache/trireme");
  unsetenv("HOME");
  EXPECT_EQ(EngineCacheFolder(), "");
}

TEST_F(ChosenEngines, FollowTheKeyOfTheRecipe) {
  EXPECT_TRUE(EngineChooser("auto", false));
  EXPECT_FALSE(EngineChooser("auto", true));
  EXPECT_FALSE(EngineChooser("packed", false));
  EXPECT_EQ(FixedEnginesOf("packed", false), FixedEngines().ToString());
  EXPECT_EQ(FixedEnginesOf("onednn", true), FixedEngines().ToString());
  for (const auto& [name, engine] : {std::pair("onednn", ProductEngine::kOnednn),
                                     {"openblas", ProductEngine::kOpenblas},
                                     {"blis", ProductEngine::kBlis}}) {
    const std::string message = MessageOf([&, name = name] { FixedEnginesOf(name, false); });
    if (MakeSingleEngine(engine, ChosenCpuLevel(), 1) == nullptr) {
      EXPECT_THAT(message, HasSubstr(std::string("train.engine = \"") + name + "\""));
    } else {
      EXPECT_EQ(EngineTable::Parse(FixedEnginesOf(name, false)).fp32, engine);
    }
  }
}

}  // namespace
}  // namespace trireme
