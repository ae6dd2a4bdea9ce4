// What a name and what a path stand for where the working folder has files like the program's own, and what of files of
// others reaches the terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "apps/program.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kTinyModel =
    "[model]\nfamily = \"gpt2\"\nlayers = 1\nhidden = 8\nheads = 1\nvocabulary = 256\nsequence = 8\n";

// Writes a file and the folders that it lies in.
void Put(const Workplace& place, const std::string& name, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(place / name).parent_path());
  place.Write(name, text);
}

TEST(NamedFiles, ANameIsTheProgramsFileAndAPathIsAPath) {
  const Workplace place;
  Put(place, "models/gpt2-124m.toml", kTinyModel);
  Put(place, "recipe.toml", "[model]\npreset = \"gpt2-124m\"\n");
  const Outcome named = place.Run({"train", "recipe.toml", "--dry-run"});
  EXPECT_EQ(named.code, 0) << named.err;
  EXPECT_THAT(named.out, testing::ContainsRegex("model.layers += 12"));
  EXPECT_THAT(named.err, HasSubstr("is taken, not 'models/gpt2-124m.toml'"));
  Put(place, "recipe.toml", "[model]\npreset = \"models/gpt2-124m.toml\"\n");
  const Outcome path = place.Run({"train", "recipe.toml", "--dry-run"});
  EXPECT_EQ(path.code, 0) << path.err;
  EXPECT_THAT(path.out, testing::ContainsRegex("model.layers += 1 "));
  EXPECT_EQ(path.err, "");
  Put(place, "models/mine.toml", kTinyModel);
  Put(place, "recipe.toml", "[model]\npreset = \"mine\"\n");
  EXPECT_THAT(place.Run({"train", "recipe.toml", "--dry-run"}).out, testing::ContainsRegex("model.layers += 1 "));
}

TEST(NamedFiles, ClustersStacksRecipesAndSweepsToo) {
  const Workplace place;
  for (const char* file : {"clusters/dgx-h100.toml", "stacks/trireme.toml", "models/gpt2-124m.toml",
                           "recipes/quickstart.toml", "sweeps/topology.toml"}) {
    Put(place, file, "nonsense\n");
  }
  const Outcome plan = place.Run({"plan", "--model", "gpt2-124m", "--cluster", "dgx-h100", "--nodes", "1"});
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(plan.err, HasSubstr("not 'clusters/dgx-h100.toml'"));
  EXPECT_THAT(plan.err, HasSubstr("not 'stacks/trireme.toml'"));
  EXPECT_THAT(plan.err, HasSubstr("not 'models/gpt2-124m.toml'"));
  const Outcome bench = place.Run({"bench", "topology", "--list"});
  EXPECT_EQ(bench.code, 0) << bench.err;
  EXPECT_THAT(bench.err, HasSubstr("not 'sweeps/topology.toml'"));
  EXPECT_THAT(bench.err, HasSubstr("not 'recipes/quickstart.toml'"));
  EXPECT_EQ(place.Run({"train", "quickstart", "--dry-run"}).code, 0);
}

TEST(NamedFiles, ALauncherRunsOnlyWhenItsSweepsPathIsGiven) {
  const Workplace place;
  Put(place, "recipe.toml", TinyRecipe());
  Put(place, "launcher.sh", "touch launched\n");
  Put(place, "sweeps/mine.toml",
      "recipe = \"recipe.toml\"\nlauncher = \"sh launcher.sh\"\n[grid]\n\"model.layers\" = [4]\n");
  const Outcome named = place.Run({"bench", "mine"});
  EXPECT_EQ(named.code, 2) << named.err;
  EXPECT_THAT(named.err, HasSubstr("'sh launcher.sh': give the sweep's path"));
  EXPECT_FALSE(place.Has("launched"));
  place.Run({"bench", "sweeps/mine.toml", "--steps", "1"});
  EXPECT_TRUE(place.Has("launched"));
}

TEST(ForeignText, SequencesForTerminalsAreWrittenOut) {
  const Workplace place;
  const std::string escape = "\x1b[31m";
  const std::string run = "run" + escape;
  Put(place, run + "/run.toml", TinyRecipe());
  Put(place, run + "/metrics.jsonl", "{\"step\": 1, \"loss\": 2.5, \"seconds\": 0.1}\n");
  Put(place, run + "/events.jsonl",
      "{\"time\": 1, \"step\": 1, \"kind\": \"\\u001b[32m\", \"text\": \"\\u001b]0;title\\u0007 \\u009b2J\"}\n");
  Put(place, "bad.toml",
      "[model]\n\""
      "la\\u001b[31myers\" = 2\n");
  Put(place, "bad-cluster.toml", "name = \"\\u001b[31m\"\n\"\\u001b[31m\" = 1\n");
  const std::vector<std::vector<std::string>> commands = {
      {"status", run},
      {"compare", run, run},
      {"diagnose", run},
      {"status", "no" + escape},
      {"train", "bad.toml", "--dry-run"},
      {"train", "no" + escape + ".toml"},
      {"bench", "x" + escape},
      {"plan", "--model", "gpt2-124m", "--cluster", "bad-cluster.toml"},
      {"plan", "--model", "gpt2-124m", "--cluster", escape},
      {"checkpoint", "verify", run},
      {"no" + escape},
  };
  for (const std::vector<std::string>& command : commands) {
    const Outcome outcome = place.Run(command);
    for (const std::string& text : {outcome.out, outcome.err}) {
      EXPECT_THAT(text, Not(HasSubstr("\x1b"))) << command[0] << ": " << text;
      EXPECT_THAT(text, Not(HasSubstr("\xc2\x9b"))) << command[0] << ": " << text;
    }
  }
  const Outcome status = place.Run({"status", run});
  EXPECT_EQ(status.code, 0) << status.err;
  EXPECT_THAT(status.out, HasSubstr("run\\u001b[31m"));
}

}  // namespace
}  // namespace trireme
