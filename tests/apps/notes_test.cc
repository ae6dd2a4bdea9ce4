// What the published notes ask for and one command does: tables of predicted runs, sums, numbers with units, and runs
// that can be found, compared and evaluated from anywhere.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/program.h"
#include "base/json_text.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::vector<std::string> Table(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"plan",
                                        "--model",
                                        "gpt2-124m",
                                        "--cluster",
                                        "dgx-h100",
                                        "--stack",
                                        "trireme",
                                        "--nodes",
                                        "1",
                                        "--global-batch",
                                        "64",
                                        "--fix",
                                        "tp=1 pp=1 zero=0 recompute=none"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(CasesOfAPlan, AreATableInFourFormats) {
  const Workplace place;
  const std::vector<std::string> cases = {"--grid", "gpus=1,2; mbs=1,2", "--case", "gpus=4; layout=tp=5"};
  std::vector<std::string> formatted = cases;
  formatted.insert(formatted.end(), {"--format", "csv", "--tokens", "300B", "--price", "2"});
  const Outcome csv = place.Run(Table(formatted));
  EXPECT_EQ(csv.code, 0) << csv.err;
  EXPECT_THAT(csv.out, StartsWith("case,nodes,GPUs,size,DP,TP,PP,MBS,GBS,memory GB,sec/it"));
  EXPECT_THAT(csv.out, HasSubstr("days/300B,GPU-h/300B,cost,fit %,remark"));
  EXPECT_EQ(Lines(csv.out).size(), 6U);
  EXPECT_THAT(csv.out, HasSubstr("gpus=2 mbs=2,1,2,"));
  EXPECT_THAT(csv.out, HasSubstr("refused: "));
  EXPECT_THAT(csv.err, HasSubstr("--tokens 300B is 300,000,000,000"));
  const Outcome text = place.Run(Table(cases));
  for (const std::string& line : Lines(text.out)) {
    EXPECT_LE(line.size(), 120U) << line;
  }
  std::vector<std::string> json = cases;
  json.push_back("--json");
  EXPECT_EQ(ParseJson(place.Run(Table(json)).out).size(), 5U);
  std::vector<std::string> unknown = {"--grid", "nods=1,2"};
  const Outcome bad = place.Run(Table(unknown));
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.err, HasSubstr("did you mean 'nodes'"));
}

TEST(CasesOfAPlan, ComeFromAFileAndAreDrawnWithMeasuredPoints) {
  const Workplace place;
  place.Write("mine.csv", "gpus,stack\n1,trireme\n2,trireme\n4,megatron-core-2024\n");
  place.Write("measured.csv", "devices,days\n2,30\n");
  const Outcome outcome =
      place.Run(Table({"--cases", "mine.csv", "--plot", "days.html", "--measured", "measured.csv"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("gpus=4 stack=megatron"));
  EXPECT_THAT(place.Read("days.html"), HasSubstr("megatron-core-2024: 4 devices"));
  EXPECT_THAT(place.Read("days.html"), HasSubstr("<td>measured</td>"));
  EXPECT_EQ(place.Run(Table({"--cases", "mine.csv", "--plot", "days.png"})).code, 2);
  for (const char* const option : {"--plot", "--measured", "--relative-to"}) {
    const Outcome refused = place.Run(Table({option, "1"}));
    EXPECT_EQ(refused.code, 2) << option;
    EXPECT_THAT(refused.err, HasSubstr(std::string(option) + " is of a table of cases"));
  }
  for (const std::vector<std::string>& option :
       {std::vector<std::string>{"--compare", "trireme"}, {"--page", "p.html"}, {"--rows", "3"}, {"--estimate"}}) {
    std::vector<std::string> table = {"--grid", "gpus=1", "--tokens", "1B"};
    table.insert(table.end(), option.begin(), option.end());
    const Outcome refused = place.Run(Table(table));
    EXPECT_EQ(refused.code, 2) << option.front();
    EXPECT_THAT(refused.err, HasSubstr(option.front()));
  }
  EXPECT_THAT(place.Run(Table({"--grid", "tokens=1B,2B"})).err, HasSubstr("the whole table's"));
  // A file's own settings give way to the command line's.
  place.Write("mine.toml", "[set]\nnodes = 1\ncluster = \"dgx-a100\"\n[grid]\nmbs = [1]\n");
  EXPECT_THAT(place.Run(Table({"--cases", "./mine.toml", "--format", "csv"})).out, HasSubstr("\nmbs=1,1,8,"));
}

TEST(FormulaProgram, ShowsItsArithmetic) {
  const Workplace place;
  const Outcome outcome = place.Run({"formula", "--model", "gpt-1.3b", "--gpus", "8", "--global-batch", "512",
                                     "--seconds", "29", "--tokens", "300B"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("TFLOPs 4x         8 x "));
  EXPECT_THAT(outcome.out, HasSubstr("days "));
  EXPECT_EQ(place.Run({"formula"}).code, 2);
  EXPECT_EQ(ParseJson(place.Run({"formula", "--layers", "80", "--hidden", "12288", "--heads", "96", "--json"}).out)
                .at("ratio")
                .get<double>(),
            153.6);
  for (const auto& [model, billions] : {std::pair{"gpt-145b", 145.6}, {"gpt-310b", 310.1}}) {
    const double parameters =
        ParseJson(place.Run({"formula", "--model", model, "--json"}).out).at("parameters").get<double>();
    EXPECT_NEAR(parameters / 1e9, billions, 0.1) << model;
  }
}

TEST(Units, AreReadInRecipesAndSettingsToo) {
  const Workplace place;
  place.Write("recipe.toml", TinyRecipe());
  const Outcome outcome = place.Run({"train", "recipe.toml", "--dry-run", "--set", "train.tokens=2M", "--steps", "1k"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("--steps 1k is 1,000"));
  EXPECT_THAT(outcome.out, HasSubstr("= 1000 "));
  const Outcome whole = place.Run({"train", "recipe.toml", "--dry-run", "--set", "train.tokens=2M"});
  EXPECT_THAT(whole.out, HasSubstr("= 2000000 "));
  EXPECT_EQ(place.Run({"train", "recipe.toml", "--dry-run", "--steps", "1.0005k"}).code, 2) << "no whole number";
}

TEST(Systems, HaveNamesLikeOtherRecipes) {
  const Workplace place;
  for (const char* const name : {"megatron-lm", "systems/megatron-lm", "systems/megatron-lm.toml"}) {
    const Outcome outcome = place.Run({"train", name, "--dry-run"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("layout.tensor"));
  }
  const Outcome unknown = place.Run({"train", "megatron-ln", "--dry-run"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("megatron-lm"));
}

// Two runs of one recipe that differ in their ZeRO stage, on bytes of a file that the recipe names by a relative path.
class TwoRuns : public testing::Test {
 protected:
  TwoRuns() {
    place_.Write("text", std::string(5000, 'x'));
    place_.Write("recipe.toml", TinyRecipe());
    for (const char* const zero : {"0", "2"}) {
      const Outcome outcome = place_.Run({"train", "recipe.toml", "--run", std::string("runs/zero") + zero, "--set",
                                          std::string("layout.zero=") + zero, "--set", "data.source=bytes:text",
                                          "--set", "model.vocabulary=256", "--set", "data.split=8,2,0", "--set",
                                          "validation.every=0", "--inject", "rank=0,step=1,phase=receive,what=nan"});
      EXPECT_EQ(outcome.code, 0) << outcome.err;
      said_ += outcome.out + outcome.err;
    }
  }

  Outcome Elsewhere(const std::string& command) const {
    std::filesystem::create_directories(place_ / "elsewhere");
    return place_.End(place_.Start({"-c", "cd elsewhere && exec " + ProgramUnderTest() + " " + command}, "/bin/sh"), 0);
  }

  const Workplace place_;
  std::string said_;
};

TEST_F(TwoRuns, CompareAndStatusShowTheStage) {
  const Outcome compared = place_.Run({"compare", "runs/zero0", "runs/zero2"});
  EXPECT_THAT(compared.out, HasSubstr("settings that differ\n  layout.zero: 0 -> 2\n"));
  const Outcome status = place_.Run({"status", "runs"});
  EXPECT_THAT(status.out, HasSubstr("zero0 "));
  EXPECT_THAT(status.out, HasSubstr("zero2 "));
  EXPECT_THAT(place_.Run({"status", "runs/zero2", "--json"}).out, HasSubstr("\"layout\":\"tp2 pp2 dp2 zero2"));
}

TEST_F(TwoRuns, EvaluateFromAnyFolder) {
  const Outcome here = place_.Run({"evaluate", "runs/zero0"});
  EXPECT_EQ(here.code, 0) << here.err;
  const Outcome there = Elsewhere("evaluate ../runs/zero0");
  EXPECT_EQ(there.code, 0) << there.err;
  EXPECT_EQ(there.out, here.out);
  EXPECT_THAT(place_.Read("runs/zero0/data_source.txt"), StartsWith("bytes:/"));
  EXPECT_THAT(place_.Read("runs/zero0/run.toml"), HasSubstr("bytes:text"));
  // A run of an earlier version has no such file: its paths are relative, as ever.
  std::filesystem::remove(place_ / "runs/zero0/data_source.txt");
  EXPECT_EQ(place_.Run({"evaluate", "runs/zero0"}).code, 0);
  EXPECT_EQ(Elsewhere("evaluate ../runs/zero0").code, 2);
}

// "nan" happens in the phase "reduce", whatever phase is named; a loss on the first stage never does.
TEST_F(TwoRuns, ADrillThatCannotActSaysSo) {
  EXPECT_THAT(said_, Not(HasSubstr("--inject")));
  const auto drilled = [&](const std::string& drill) {
    const Outcome outcome = place_.Run({"train", "recipe.toml", "--run", "runs/drill", "--inject", drill});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::filesystem::remove_all(place_ / "runs/drill");
    return Unwrapped(outcome.out + outcome.err);
  };
  EXPECT_THAT(drilled("rank=0,step=2,what=loss"), HasSubstr("--inject will do nothing: rank 0 computes no loss"));
  EXPECT_THAT(drilled("rank=0,step=99,what=nan"), HasSubstr("after the run's last one"));
  EXPECT_THAT(drilled("rank=1,step=2,phase=dance,what=throw"),
              HasSubstr("--inject did nothing: rank 1 reached no phase 'dance' in step 2"));
}

// 13B on eight paced ranks: a checkpoint of its state would take 156 GB of memory and disk.
TEST(PacedRehearsal, CheckpointsHoldThePositionAlone) {
  const Workplace place;
  place.Write("large.toml", R"([model]
family = "gpt2"
layers = 40
hidden = 5120
heads = 40
vocabulary = 50304
sequence = 2048
[layout]
tensor = 2
pipeline = 4
micro_batch = 1
recompute = "full"
[batch]
global = 8
[train]
dtype = "bf16"
device = "paced"
paced_cluster = "dgx-h100"
steps = 3
[data]
source = "synthetic"
[checkpoint]
every = 1
[validation]
every = 0
)");
  const Outcome some = place.Run({"train", "large.toml", "--run", "run", "--steps", "2"});
  ASSERT_EQ(some.code, 0) << some.err;
  std::uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(place / "run/checkpoints")) {
    bytes += entry.is_regular_file() ? entry.file_size() : 0;
  }
  EXPECT_GT(bytes, 0U);
  EXPECT_LT(bytes, 10'000'000U);
  const Outcome more = place.Run({"train", "large.toml", "--run", "run"});
  EXPECT_EQ(more.code, 0) << more.err;
  EXPECT_THAT(more.out, HasSubstr("resumed after step 2"));
  // Another device has nothing to go on from.
  place.Write("tiny.toml", TinyRecipe());
  const Outcome paced = place.Run({"train", "tiny.toml", "--run", "tiny", "--steps", "1", "--set", "train.device=paced",
                                   "--set", "train.paced_cluster=dgx-h100"});
  ASSERT_EQ(paced.code, 0) << paced.err;
  const Outcome real = place.Run({"train", "tiny.toml", "--run", "tiny"});
  EXPECT_EQ(real.code, 2);
  EXPECT_THAT(real.err, HasSubstr("only such a run can go on from it"));
}

}  // namespace
}  // namespace trireme
