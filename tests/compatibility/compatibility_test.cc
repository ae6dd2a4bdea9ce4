// What 20fef18 wrote (from_20fef18, made by make-fixtures) is read by this program: run folders resume and end as they
// did there, checkpoints have the states that they had, and plans, calibrations and schedule files load.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/program.h"
#include "base/json_text.h"
#include "base/units.h"
#include "report/report_document.h"
#include "report/report_page.h"
#include "topology/cluster.h"

namespace trireme {
namespace {

using testing::HasSubstr;

// Rounding differs between instruction levels: by 1e-7 in losses and 2e-5 in norms of gradients (portable, avx2 and
// avx512). On one level both are equal to the bit.
constexpr double kLoss = 1e-5;
constexpr double kNorm = 1e-3;

const std::filesystem::path kFixtures = std::filesystem::path(TRIREME_SOURCE_DIR) / "tests/compatibility/from_20fef18";

// A copy of the fixtures: runs go on in it.
class OldFiles : public Workplace {
 public:
  OldFiles() { std::filesystem::copy(kFixtures, *this / "", std::filesystem::copy_options::recursive); }

  nlohmann::json Answer(const std::vector<std::string>& arguments) const {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return ParseJsonOrDiscard(outcome.out);
  }
};

// Losses, validation losses and norms by name and step.
std::map<std::string, double> NumbersOf(const std::string& metrics) {
  std::map<std::string, double> numbers;
  for (const std::string& line : Lines(metrics)) {
    const nlohmann::json row = ParseJson(line);
    for (const char* const key : {"loss", "validation_loss", "grad_norm"}) {
      if (row.contains(key)) {
        numbers[fmt::format("{} of step {}", key, row["step"].get<int>())] = row[key];
      }
    }
  }
  return numbers;
}

void ExpectSameNumbers(const std::string& expected, const std::string& actual) {
  const std::map<std::string, double> before = NumbersOf(expected);
  const std::map<std::string, double> after = NumbersOf(actual);
  EXPECT_EQ(before.size(), 20U);  // of eight steps, four of them validated
  for (const auto& [name, number] : before) {
    ASSERT_TRUE(after.contains(name)) << name;
    const double tolerance = name.starts_with("grad_norm") ? kNorm : kLoss;
    EXPECT_NEAR(after.at(name), number, tolerance * number) << name;
  }
}

struct OldRun : testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Compatibility, OldRun, testing::Values("stages", "shards"),
                         [](const auto& run) { return std::string(run.param); });

TEST_P(OldRun, ResumesAndEndsAsTheOneThatWasLeftAlone) {
  const OldFiles files;
  const std::string run = GetParam();
  const Outcome outcome = files.Run({"train", run + ".toml", "--run", run});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("resumed after step 4"));
  ExpectSameNumbers(files.Read(run + ".whole.jsonl"), files.Read(run + "/metrics.jsonl"));
}

TEST_P(OldRun, ResumesByItsOwnRunFileOnOneRank) {
  const OldFiles files;
  const std::string run = GetParam();
  std::filesystem::copy(files / (run + "/run.toml"), files / "old.toml");
  const Outcome outcome = files.Run({"train", "old.toml", "--run", run, "--set", "layout.tensor=1", "--set",
                                     "layout.pipeline=1", "--set", "layout.data=1", "--set", "layout.zero=0", "--set",
                                     "layout.sequence_parallel=false", "--set", "layout.schedule=1f1b"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("resumed after step 4"));
  ExpectSameNumbers(files.Read(run + ".whole.jsonl"), files.Read(run + "/metrics.jsonl"));
}

TEST_P(OldRun, HasTheStateThatWasSaved) {
  const OldFiles files;
  const std::string run = GetParam();
  EXPECT_EQ(files.Run({"checkpoint", "verify", run}).code, 0);
  const nlohmann::json state = files.Answer({"checkpoint", "inspect", run, "--json"});
  EXPECT_EQ(fmt::format(" \"digest\": \"{}\",\n", state.at("digest").get<std::string>()),
            files.Read(run + ".digest.txt"));
}

TEST_P(OldRun, IsEvaluatedAsBefore) {
  const OldFiles files;
  const std::string run = GetParam();
  const nlohmann::json before = ParseJson(files.Read(run + ".evaluated.json"));
  const nlohmann::json after = files.Answer({"evaluate", run, "--json", "--threads", "1"});
  EXPECT_EQ(after.at("samples"), before.at("samples"));
  EXPECT_NEAR(after.at("loss"), before.at("loss"), kLoss * before.at("loss").get<double>());
}

TEST(Compatibility, AnOldRunGeneratesTheSameTokens) {
  const OldFiles files;
  const nlohmann::json before = ParseJson(files.Read("stages.generated.json"));
  const nlohmann::json after = files.Answer({"generate", "stages", "--prompt", "3 and 9 ", "--tokens", "8", "--seed",
                                             "7", "--threads", "1", "--json", "--logprobs"});
  EXPECT_EQ(after.at("tokens"), before.at("tokens"));
  for (std::size_t i = 0; i < before.at("logprobs").size(); ++i) {
    EXPECT_NEAR(after.at("logprobs").at(i), before.at("logprobs")[i], kLoss) << i;
  }
}

TEST(Compatibility, OldRunsAndPlansAreReported) {
  const OldFiles files;
  const ReportInput input = ReadReportInput({files / "stages", files / "shards", files / "plan.json"});
  ASSERT_EQ(input.runs.size(), 2U);
  ASSERT_EQ(input.plans.size(), 1U);
  for (const RunRecord& run : input.runs) {
    EXPECT_EQ(run.steps(), 5) << run.name;
    EXPECT_EQ(run.total_steps, 8) << run.name;
    EXPECT_EQ(run.ranks, 4) << run.name;
    EXPECT_GT(run.parameters, 5000) << run.name;
    EXPECT_GE(run.events.size(), 3U) << run.name;
    EXPECT_GT(run.predicted_seconds, 0) << run.name;
    EXPECT_EQ(run.metrics.validation_loss.size(), 2U) << run.name;
    EXPECT_FALSE(run.planned_memory.empty() && run.measured_memory.empty()) << run.name;
    EXPECT_FALSE(run.causes.empty()) << run.name;
    EXPECT_EQ(run.config.at("model.layers"), run.name == "stages" ? "4" : "3");
  }
  const nlohmann::json plan = ParseJson(input.plans[0].second);
  EXPECT_EQ(plan.at("ranked").size(), 2U);
  EXPECT_THAT(ReportDocument(input), HasSubstr("tp1 pp1 dp4"));
}

// Keys of a plan that programs read: they stay.
TEST(Compatibility, APlanHasTheKeysOfAnOldOne) {
  const OldFiles files;
  const nlohmann::json before = ParseJson(files.Read("plan.json"));
  const nlohmann::json after = files.Answer({"plan",
                                             "--family",
                                             "gpt2",
                                             "--layers",
                                             "8",
                                             "--hidden",
                                             "512",
                                             "--heads",
                                             "8",
                                             "--vocabulary",
                                             "50257",
                                             "--sequence",
                                             "256",
                                             "--cluster",
                                             std::string(TRIREME_SOURCE_DIR) + "/clusters/dgx-h100.toml",
                                             "--stack",
                                             std::string(TRIREME_SOURCE_DIR) + "/stacks/trireme.toml",
                                             "--gpus",
                                             "4",
                                             "--global-batch",
                                             "16",
                                             "--fix",
                                             "pp=1 zero=1 recompute=none",
                                             "--rows",
                                             "2",
                                             "--json"});
  for (const auto& [key, value] : before.items()) {
    EXPECT_TRUE(after.contains(key)) << key;
    EXPECT_STREQ(after[key].type_name(), value.type_name()) << key;
  }
  for (const auto& [key, value] : before.at("ranked")[0].items()) {
    EXPECT_TRUE(after.at("ranked").at(0).contains(key)) << key;
  }
}

TEST(Compatibility, AnOldCalibrationIsPlannedWith) {
  const OldFiles files;
  const Cluster cluster = LoadCluster(files / "calibration.toml", "");
  EXPECT_NEAR(cluster.device.memory / kGibi, 11.77, 1e-9);
  EXPECT_NEAR(cluster.device.memory_bandwidth / 1e9, 1.5713, 1e-9);
  EXPECT_TRUE(cluster.device.is_host);
  const nlohmann::json plan = files.Answer({"plan",
                                            "--family",
                                            "gpt2",
                                            "--layers",
                                            "4",
                                            "--hidden",
                                            "64",
                                            "--heads",
                                            "4",
                                            "--sequence",
                                            "64",
                                            "--cluster",
                                            files / "calibration.toml",
                                            "--gpus",
                                            "2",
                                            "--global-batch",
                                            "8",
                                            "--rows",
                                            "1",
                                            "--dtype",
                                            "fp32",
                                            "--json"});
  EXPECT_EQ(plan.at("calibrated"), true);
  EXPECT_GT(plan.at("ranked").at(0).at("seconds"), 0);
}

TEST(Compatibility, AnOldScheduleIsDrawn) {
  const OldFiles files;
  const Outcome outcome = files.Run({"schedule", "staged.schedule", "--stages", "2", "--micro-batches", "4", "--text"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("name=staged stages=2 chunks=1 micro_batches=4"));
  EXPECT_THAT(outcome.out, HasSubstr("I0.2"));
}

}  // namespace
}  // namespace trireme
