#include "report/bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "cost/formulas.h"
#include "report/bench_plot.h"
#include "report/compare_runs.h"
#include "scratch_directory.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class BenchFolder : public testing::Test {
 protected:
  BenchFolder() {
    std::ofstream(folder_ + "/tiny.toml")
        << "[model]\nlayers = 1\nhidden = 8\nheads = 1\nsequence = 8\nvocabulary = 16\n";
  }
  // A program in place of `trireme train`: leaves steps whose seconds are the micro batch, fails for 3, and dies of
  // the machine's memory for 4. Counts its calls.
  std::string Pretender() const {
    const std::string path = folder_ + "/pretender";
    std::ofstream(path) << R"(#!/bin/bash
for word; do case $last in --run) run=$word ;; --steps) steps=$word ;; esac; last=$word; done
micro=1; for word; do case $word in layout.micro_batch=*) micro=${word#*=} ;; esac; done
echo "$micro" >> )" + folder_ + R"(/calls
[ $micro = 3 ] && { echo "trireme: it broke" >&2; exit 1; }
[ $micro = 4 ] && { echo "trireme: 9 GB of memory are needed, there are 8" >&2; exit 2; }
mkdir -p $run
for ((i = 1; i <= steps; ++i)); do
  seconds=$micro; [ $i -le 3 ] && seconds=100
  echo "{\"step\":$i,\"loss\":4.5,\"seconds\":$seconds,\"predicted_seconds\":2,\"memory_bytes\":5e9,\"tflops\":1.5}" >> $run/metrics.jsonl
done
)";
    chmod(path.c_str(), 0755);
    return path;
  }
  Sweep SomeSweep() const {
    return ParseSweep("recipe = \"" + folder_ + R"(/tiny.toml"
steps = 5
[set]
"batch.global" = 12
[grid]
"layout.micro_batch" = [1, 2, 3, 4]
)",
                      "some.toml");
  }
  std::vector<std::string> Calls() const {
    std::ifstream file(folder_ + "/calls");
    return {std::istream_iterator<std::string>(file), {}};
  }

  ScratchDirectory scratch_;
  const std::string folder_ = scratch_.path().string();
};

TEST(Sweep, IsEveryCombinationThenTheListedCases) {
  const Sweep sweep = ParseSweep(R"(recipe = "quickstart"
repeats = 2
[set]
"data.source" = "synthetic"
[grid]
"layout.data" = [1, 2]
"layout.recompute" = ["none", "full"]
[[case]]
"layout.tensor" = 4
)",
                                 "sweeps/study.toml");
  EXPECT_EQ(sweep.name, "study");
  EXPECT_EQ(sweep.repeats, 2);
  ASSERT_EQ(sweep.cases.size(), 5U);
  EXPECT_EQ(sweep.cases[1].label, "layout.data=1 layout.recompute='full'");
  EXPECT_THAT(sweep.cases[4].overrides, ElementsAre("data.source='synthetic'", "layout.tensor=4"));
}

TEST(Sweep, SaysWhatIsWrong) {
  const auto message = [](const std::string& text) {
    try {
      ParseSweep(text, "a.toml");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(message("recipe = 'x'\nrepeat = 2"), HasSubstr("'repeat' is no key of a sweep"));
  EXPECT_THAT(message("recipe = 'x'"), HasSubstr("nothing to run"));
  EXPECT_THAT(message("[grid]\n'a' = [1]"), HasSubstr("recipe is missing"));
  EXPECT_THAT(message("recipe = 'x'\n[grid]\n'a' = 1"), HasSubstr("must be a list"));
  EXPECT_THAT(message("recipe = 'x'\nsteps = 0\n[grid]\n'a' = [1]"), HasSubstr("at least 1"));
  EXPECT_THAT(message("recipe ="), HasSubstr("a.toml line 1"));
}

TEST(Sweep, EveryShippedOneCanBeRead) {
  int read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TRIREME_SOURCE_DIR "/sweeps")) {
    const Sweep sweep = LoadSweep(entry.path().string());
    EXPECT_FALSE(sweep.about.empty()) << entry.path();
    for (const SweepCase& one : sweep.cases) {
      const Recipe recipe = LoadRecipe(TRIREME_SOURCE_DIR "/recipes/" + sweep.recipe + ".toml", one.overrides);
      EXPECT_NO_THROW(Validate(recipe.config, 0)) << entry.path() << " " << one.label;
    }
    ++read;
  }
  EXPECT_GE(read, 10);
}

TEST_F(BenchFolder, FailuresAreRowsAndWarmUpIsNotMeasured) {
  const std::vector<BenchRow> rows = RunBench(SomeSweep(), {.folder = folder_ + "/out", .program = Pretender()});
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0].seconds, 1);
  EXPECT_EQ(rows[1].seconds, 2);
  EXPECT_EQ(rows[1].memory, 5e9);
  EXPECT_EQ(rows[2].failure, "failed: it broke");
  EXPECT_THAT(rows[3].failure, StartsWith("out of memory: 9 GB"));
  const RunTable table = TableOf(rows);
  EXPECT_THAT(BenchText(table), HasSubstr("failed: it broke"));
  EXPECT_THAT(ToMarkdown(table), StartsWith("| case | nodes | GPUs | size |"));
  const auto cell = [&](std::size_t row, const char* column) {
    const auto at = std::find(table.columns.begin(), table.columns.end(), column);
    return table.rows[row].at(static_cast<std::size_t>(at - table.columns.begin()));
  };
  // 2 s/step instead of 1: half the speed per device; predicted 2 s.
  EXPECT_EQ(cell(1, "scaling %"), "50.0");
  EXPECT_EQ(cell(1, "error %"), "+0.0");
  EXPECT_EQ(cell(0, "TFLOPs 6N"), fmt::format("{:.4g}", EstimatedFlops(rows[0].config.model, 12, false) / 1e12));
}

// A run on more ranks than the machine has cores says so where its scaling stands.
TEST_F(BenchFolder, SharedCoresAreMarked) {
  const Sweep sweep = ParseSweep("recipe = \"" + folder_ + R"(/tiny.toml"
[set]
"batch.global" = 4096
"layout.micro_batch" = 1
[grid]
"layout.data" = [1, 4096]
)",
                                 "wide.toml");
  const BenchSample sample{.seconds = {1, 1, 1, 1}, .samples = {32, 32, 32, 32}, .memory = 1e9, .hardware = 1};
  const BenchRow narrow = RowOf(sweep, sweep.cases[0], {sample});
  const BenchRow wide = RowOf(sweep, sweep.cases[1], {sample});
  EXPECT_FALSE(narrow.shares_cores);
  EXPECT_TRUE(wide.shares_cores);
  const std::string text = BenchText(TableOf({narrow, wide}));
  EXPECT_THAT(text, HasSubstr("*"));
  EXPECT_THAT(text, HasSubstr("more ranks than cores"));
  EXPECT_THAT(text, HasSubstr("measured with batches of 32 to 32"));
  EXPECT_THAT(ToCsv(TableOf({narrow, wide})), HasSubstr("ranks share cores"));
}

TEST_F(BenchFolder, GoesOnAfterAKillWithTheSameTable) {
  const BenchOptions options{.folder = folder_ + "/out", .program = Pretender()};
  RunBench(SomeSweep(), options);
  const std::string whole = ReadBytes(folder_ + "/out/table.csv");
  ASSERT_EQ(Calls().size(), 4U);
  // Killed while the second row was being written.
  const std::string rows = ReadBytes(folder_ + "/out/rows.jsonl");
  std::ofstream(folder_ + "/out/rows.jsonl") << rows.substr(0, rows.find('\n') + 30);
  RunBench(SomeSweep(), options);
  EXPECT_THAT(Calls(), ElementsAre("1", "2", "3", "4", "2", "3", "4"));
  EXPECT_EQ(ReadBytes(folder_ + "/out/table.csv"), whole);
  RunBench(SomeSweep(), options);
  EXPECT_EQ(Calls().size(), 7U);
}

TEST_F(BenchFolder, AnotherProgramOrTimeLimitIsMeasuredAgain) {
  Sweep sweep = SomeSweep();
  const std::string program = Pretender();
  const BenchOptions options{.folder = folder_ + "/out", .program = program};
  RunBench(sweep, options);
  ASSERT_EQ(Calls().size(), 4U);
  sweep.timeout += 1;
  RunBench(sweep, options);
  EXPECT_EQ(Calls().size(), 8U);
  std::ofstream(program, std::ios::app) << "# another build\n";
  RunBench(sweep, options);
  EXPECT_EQ(Calls().size(), 12U);
}

TEST_F(BenchFolder, ACaseThatIsGoneIsWorse) {
  RunBench(SomeSweep(), {.folder = folder_ + "/out", .program = Pretender()});
  const std::string table = ReadBytes(folder_ + "/out/table.csv");
  const std::size_t second = table.find('\n', table.find('\n') + 1) + 1;
  std::ofstream(folder_ + "/fewer.csv") << table.substr(0, second);
  const std::vector<Difference> differences = CompareRuns(folder_ + "/out/table.csv", folder_ + "/fewer.csv", 0.01);
  EXPECT_TRUE(AnyWorse(differences));
  EXPECT_THAT(ToText(differences), HasSubstr("is missing"));
}

TEST_F(BenchFolder, ARunThatTakesTooLongIsEnded) {
  Sweep sweep = SomeSweep();
  sweep.timeout = 0.2;
  const std::string path = folder_ + "/sleeper";
  std::ofstream(path) << "#!/bin/sh\nsleep 60\n";
  chmod(path.c_str(), 0755);
  const std::vector<BenchRow> rows = RunBench(sweep, {.folder = folder_ + "/out", .program = path});
  EXPECT_THAT(rows[0].failure, StartsWith("timed out"));
}

TEST_F(BenchFolder, ComparingTellsAChangeFromNoise) {
  const auto run = [&](const std::string& name, double seconds, double jitter, double loss) {
    std::filesystem::create_directories(folder_ + "/" + name);
    std::ofstream file(folder_ + "/" + name + "/metrics.jsonl");
    for (int step = 1; step <= 100; ++step) {
      file << fmt::format("{{\"step\":{},\"loss\":{},\"seconds\":{},\"memory_bytes\":1000}}\n", step, loss,
                          seconds * (1 + jitter * (step % 5 - 2)));
    }
    return folder_ + "/" + name;
  };
  const std::string before = run("before", 1.0, 0.05, 4);
  const std::vector<Difference> same = CompareRuns(before, run("same", 1.01, 0.05, 4), 0);
  EXPECT_FALSE(AnyWorse(same)) << ToText(same);
  const std::vector<Difference> slower = CompareRuns(before, run("slower", 1.1, 0.05, 4), 0.01);
  EXPECT_EQ(slower[0].direction, Direction::kWorse) << ToText(slower);
  EXPECT_EQ(slower[1].direction, Direction::kSame);
  const std::vector<Difference> learns = CompareRuns(before, run("learns", 0.9, 0.05, 4.5), 0.01);
  EXPECT_EQ(learns[0].direction, Direction::kBetter);
  EXPECT_EQ(learns[2].direction, Direction::kWorse);
}

TEST_F(BenchFolder, LossesOfOtherDataAreNotJudged) {
  const auto run = [&](const std::string& name, const std::string& source, double loss) {
    std::filesystem::create_directories(folder_ + "/" + name);
    std::ofstream(folder_ + "/" + name + "/run.toml") << fmt::format("[data]\nsource = \"{}\"\n", source);
    std::ofstream file(folder_ + "/" + name + "/metrics.jsonl");
    for (int step = 1; step <= 20; ++step) {
      file << fmt::format("{{\"step\":{},\"loss\":{},\"seconds\":0.5,\"memory_bytes\":2500000}}\n", step, loss);
    }
    return folder_ + "/" + name;
  };
  const std::string before = run("before", "a.bin", 4);
  const std::vector<Difference> other = CompareRuns(before, run("other", "b.bin", 5), 0.01);
  EXPECT_FALSE(AnyWorse(other)) << ToText(other);
  EXPECT_THAT(ToText(other), HasSubstr("not judged: data.source differs"));
  EXPECT_THAT(ToText(other), HasSubstr("0.5 s -> 0.5 s"));
  EXPECT_THAT(ToText(other), HasSubstr("2.5 MB -> 2.5 MB"));
  EXPECT_TRUE(AnyWorse(CompareRuns(before, run("same", "a.bin", 5), 0.01)));
}

TEST_F(BenchFolder, ALossThatIsNotFiniteIsWorse) {
  const auto run = [&](const std::string& name, int finite, const char* validation) {
    std::filesystem::create_directories(folder_ + "/" + name);
    std::ofstream file(folder_ + "/" + name + "/metrics.jsonl");
    for (int step = 1; step <= 20; ++step) {
      file << fmt::format("{{\"step\":{},\"loss\":{},\"seconds\":1}}\n", step, step <= finite ? "5.6" : "null");
    }
    file << fmt::format("{{\"step\":20,\"validation_loss\":{}}}\n", validation);
    return folder_ + "/" + name;
  };
  const std::string before = run("before", 20, "5.624");
  const std::vector<Difference> losses = CompareRuns(before, run("last", 19, "5.624"), 0.01);
  EXPECT_EQ(losses[2].direction, Direction::kWorse) << ToText(losses);
  const std::vector<Difference> validation = CompareRuns(before, run("validation", 20, "null"), 0.01);
  EXPECT_EQ(validation[3].direction, Direction::kWorse) << ToText(validation);
  EXPECT_EQ(CompareRuns(folder_ + "/last", before, 0.01)[2].direction, Direction::kBetter);
  EXPECT_FALSE(AnyWorse(CompareRuns(folder_ + "/last", folder_ + "/last", 0.01)));
}

// Steps of a ramp: rates are those of the samples that were consumed, not of the batch that the ramp leads to.
TEST_F(BenchFolder, RatesAreOfTheSamplesThatStepsConsumed) {
  const Sweep sweep = SomeSweep();
  const BenchSample ramp{.seconds = {1, 1.5, 2}, .samples = {3, 6, 9}};
  const BenchRow row = RowOf(sweep, sweep.cases[0], {ramp});
  EXPECT_EQ(row.config.batch.global, 12);
  EXPECT_DOUBLE_EQ(row.samples / row.seconds, 4);  // the median of 3, 4 and 4.5 a second
  EXPECT_THAT(row.remark, HasSubstr("batches of 3 to 9"));
  const RunTable table = TableOf({row});
  const auto cell = [&](const std::string& column) {
    const auto at = std::find(table.columns.begin(), table.columns.end(), column) - table.columns.begin();
    return table.rows[0][static_cast<std::size_t>(at)];
  };
  EXPECT_EQ(cell("samples/s"), "4");
  EXPECT_EQ(cell("tokens/s"), "32");
  EXPECT_EQ(cell("days/100B"), fmt::format("{:.0f}", 100e9 / 32 / 86'400));
  EXPECT_EQ(cell("remark"), row.remark);
  // Earlier results do not say what steps consumed: the global batch then.
  const BenchRow earlier = RowOf(sweep, sweep.cases[0], {{.seconds = {1, 1, 1}}});
  EXPECT_EQ(earlier.samples, 12);
  EXPECT_EQ(earlier.remark, "");
}

TEST_F(BenchFolder, ComparesTablesCaseByCase) {
  const std::vector<BenchRow> rows = RunBench(SomeSweep(), {.folder = folder_ + "/out", .program = Pretender()});
  std::vector<BenchRow> slower = rows;
  slower[0].seconds *= 1.5;
  std::ofstream(folder_ + "/slower.csv") << ToCsv(TableOf(slower));
  const std::vector<Difference> differences = CompareRuns(folder_ + "/out/table.csv", folder_ + "/slower.csv", 0.01);
  ASSERT_EQ(differences.size(), 4U);  // seconds and memory of the two cases that ran
  EXPECT_EQ(differences[0].direction, Direction::kWorse);
  EXPECT_EQ(differences[2].direction, Direction::kSame);
}

// Another machine is slower in every case alike; only a case that got slower beside the first is a regression.
TEST_F(BenchFolder, RatiosToTheFirstCaseCompareTablesOfTwoMachines) {
  const std::vector<BenchRow> rows = RunBench(SomeSweep(), {.folder = folder_ + "/out", .program = Pretender()});
  std::vector<BenchRow> elsewhere = rows;
  for (BenchRow& row : elsewhere) {
    row.seconds *= 3;
  }
  const std::string table = folder_ + "/elsewhere.csv";
  std::ofstream(table) << ToCsv(TableOf(elsewhere));
  const std::vector<Difference> same = CompareRuns(folder_ + "/out/table.csv", table, 0.01, true);
  EXPECT_FALSE(AnyWorse(same)) << ToText(same);
  const auto second =
      std::find_if(elsewhere.begin() + 1, elsewhere.end(), [](const BenchRow& row) { return row.failure.empty(); });
  ASSERT_NE(second, elsewhere.end());
  second->seconds *= 1.2;
  std::ofstream(table) << ToCsv(TableOf(elsewhere));
  EXPECT_TRUE(AnyWorse(CompareRuns(folder_ + "/out/table.csv", table, 0.01, true)));
  EXPECT_THROW(CompareRuns(folder_ + "/out", folder_ + "/out", 0.01, true), Error);
}

TEST_F(BenchFolder, DrawsItsCasesAsSvg) {
  std::vector<BenchRow> rows = RunBench(SomeSweep(), {.folder = folder_ + "/out", .program = Pretender()});
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/out/plot.svg"));
  rows[0].label = "<script>&";
  const std::string svg = PlotOf(rows, "a study");
  EXPECT_THAT(svg, testing::HasSubstr("&lt;script&gt;&amp;"));
  EXPECT_THAT(svg, testing::HasSubstr("seconds per step"));
  EXPECT_THAT(PlotOf({}, "none"), testing::HasSubstr("no case has run"));
}

}  // namespace
}  // namespace trireme
