// Every recipe and every model file that the repository ships can be read, and every recipe can be trained.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "base/error.h"
#include "run/run_config.h"

namespace trireme {
namespace {

const std::filesystem::path kRoot = TRIREME_SOURCE_DIR;

std::vector<std::filesystem::path> TomlFiles(const char* folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(kRoot / folder)) {
    if (entry.path().extension() == ".toml") {
      files.push_back(entry.path());
    }
  }
  return files;
}

TEST(RecipeFiles, AllAreValid) {
  const auto files = TomlFiles("recipes");
  EXPECT_FALSE(files.empty());
  for (const auto& file : files) {
    const Recipe recipe = LoadRecipe(file.string(), {}, {(kRoot / "models").string()});
    EXPECT_NO_THROW(Validate(recipe.config, 0)) << file;
  }
}

TEST(RecipeFiles, SystemsAreValid) {
  const auto files = TomlFiles("recipes/systems");
  EXPECT_FALSE(files.empty());
  for (const auto& file : files) {
    const Recipe recipe = LoadRecipe(file.string(), {}, {(kRoot / "models").string()});
    EXPECT_NO_THROW(Validate(recipe.config, 0)) << file;
  }
}

// The pages for those who come from other programs name keys that exist.
TEST(Documents, KeysForThoseWhoComeFromOtherProgramsExist) {
  std::set<std::string> known;
  for (const KeyValue& key : Flatten(RunConfig())) {
    known.insert(key.key);
  }
  static const std::regex named(R"(`((model|layout|batch|optimizer|train|data|checkpoint|validation)\.[a-z_0-9.]+)`)");
  for (const char* page : {"docs/reference/from_megatron.md", "docs/reference/from_deepspeed.md"}) {
    std::ifstream file(kRoot / page);
    std::size_t found = 0;
    for (std::string line; std::getline(file, line);) {
      // The second column: ours.
      const std::size_t column = line.starts_with("|") ? line.find('|', 1) : std::string::npos;
      const std::string ours = column == std::string::npos ? "" : line.substr(column);
      for (std::sregex_iterator at(ours.begin(), ours.end(), named), end; at != end; ++at) {
        EXPECT_TRUE(known.contains((*at)[1])) << page << ": " << (*at)[1];
        ++found;
      }
    }
    EXPECT_GT(found, 20U) << page;
  }
}

TEST(ModelFiles, AllAreRead) {
  const auto files = TomlFiles("models");
  EXPECT_FALSE(files.empty());
  for (const auto& file : files) {
    const std::string text = "model.preset = '" + file.stem().string() + "'";
    EXPECT_GT(ParameterCount(ParseRecipe(text, "test", {}, {(kRoot / "models").string()}).config.model), 1'000'000)
        << file;
  }
}

TEST(ModelFiles, HaveThePublishedNumberOfParameters) {
  const std::vector<std::pair<std::string, std::int64_t>> published = {
      {"gpt2-124m", 124'439'808},    {"gpt2-355m", 354'823'168},      {"gpt2-774m", 774'030'080},
      {"gpt2-1.5b", 1'557'611'200},  {"bloom-560m", 559'214'592},     {"bloom-1b7", 1'722'408'960},
      {"bloom-7b1", 7'069'016'064},  {"bloom-176b", 176'247'271'424}, {"llama-2-7b", 6'738'415'616},
      {"llama-3-8b", 8'030'261'248}, {"llama-3-70b", 70'553'706'496}, {"llama-3.1-405b", 405'853'388'800},
  };
  for (const auto& [name, count] : published) {
    const std::string text = "model.preset = '" + name + "'";
    EXPECT_EQ(ParameterCount(ParseRecipe(text, "test", {}, {(kRoot / "models").string()}).config.model), count) << name;
  }
}

}  // namespace
}  // namespace trireme
