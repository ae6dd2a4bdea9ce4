// Random damage to good input: a parser may refuse it with an Error, never crash, hang or throw anything else.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>

#include "base/error.h"
#include "planner/fixtures.h"
#include "planner/queries/emit.h"
#include "planner/queries/model_shape.h"
#include "planner/queries/phases.h"
#include "planner/queries/shapes.h"
#include "run/run_config.h"
#include "topology/settings.h"

namespace trireme {
namespace {

using test::ShippedFiles;
using test::Source;

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string Damaged(std::string text, std::mt19937& random) {
  const auto draw = [&](std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random); };
  const std::size_t wounds = 1 + draw(6);
  for (std::size_t i = 0; i < wounds && !text.empty(); ++i) {
    const std::size_t at = draw(text.size());
    switch (draw(4)) {
      case 0:
        text[at] = static_cast<char>(draw(256));
        break;
      case 1:
        text.erase(at, draw(20) + 1);
        break;
      case 2:
        text.insert(at, text.substr(draw(text.size()), draw(30)));
        break;
      default:
        text.insert(at, std::string("9e99\",=[{\n-").substr(draw(10), 3));
    }
  }
  return text;
}

template <typename Parser>
void Fuzz(const std::string& good, int rounds, Parser parse) {
  std::mt19937 random(7);
  int accepted = 0;
  for (int round = 0; round < rounds; ++round) {
    const std::string text = Damaged(good, random);
    try {
      parse(text);
      ++accepted;
    } catch (const Error& error) {
      EXPECT_FALSE(std::string(error.what()).empty());
    }
  }
  EXPECT_LT(accepted, rounds) << "some damage must be seen";
}

TEST(ParsersFuzz, ClusterFiles) {
  Fuzz(Read(Source("clusters/dgx-h100.toml")), 2000, [](const std::string& text) { ParseCluster(text, "x"); });
}

TEST(ParsersFuzz, StackFiles) {
  Fuzz(Read(Source("stacks/megatron-ds-2022.toml")), 2000, [](const std::string& text) { ParseStack(text, "x"); });
}

TEST(ParsersFuzz, TablesOfRuns) {
  const PlannerFiles files = ShippedFiles();
  const std::string whole = Read(Source("tests/planner/published_runs.csv"));
  Fuzz(whole.substr(0, whole.find("\nr000-mlm32-002") + 1), 1000, [&](const std::string& text) {
    for (const MeasuredRun& run : ParseRuns(text, "x")) {
      Understand(run, files);
    }
  });
}

TEST(ParsersFuzz, ModelFiles) {
  Fuzz(Read(Source("models/llama-3-70b.toml")), 2000, [](const std::string& text) {
    const Recipe recipe = ParseRecipe(text, "x", {}, {.models_folder = Source("models")});
    ParameterCount(Completed(recipe.config.model, true));
  });
}

TEST(ParsersFuzz, HuggingFaceConfigs) {
  Fuzz(test::kLlamaConfig, 3000, [](const std::string& text) { ParameterCount(ParseModelShape(text, "x")); });
}

TEST(ParsersFuzz, Settings) {
  Fuzz("name = \"x\"\n[a.b]\nc = 1.5\nd = [1, 2]\ne = [\"p\"]\n[[f]]\ng = true\n[[f]]\ng = false\n", 3000,
       [](const std::string& text) {
         const Settings file = Settings::FromText(text, "x");
         file.Text("name", "");
         file.Number("a.b.c", 0);
         file.Numbers("a.b.d");
         file.Texts("a.b.e");
         for (int i = 0; i < file.Entries("f"); ++i) {
           file.Flag("f[" + std::to_string(i) + "].g", false);
         }
         file.RequireAllKnown();
       });
}

TEST(ParsersFuzz, LayoutsSizesAndPhases) {
  Fuzz("tp=4 pp=12 dp=8 mbs=2 zero=1 partition=7,7,6 sp", 3000, [](const std::string& text) { ParseLayout(text, {}); });
  Fuzz("200B", 500, [](const std::string& text) { ParseSize(text); });
  Fuzz("16:30,48:60,64", 1000, [](const std::string& text) { ParsePhases(text); });
}

}  // namespace
}  // namespace trireme
