#include "planner/validation/validate.h"

#include <gtest/gtest.h>

#include <map>

#include "planner/fixtures.h"

namespace trireme {
namespace {

using test::ShippedFiles;
using test::Source;

// One validation serves several cases: it prices every published run against calibrations that never saw its table.
class LeaveOneOut : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    runs_ = new std::vector<MeasuredRun>(LoadRuns(Source("tests/planner/published_runs.csv")));
    validation_ = new Validation(Validate(*runs_, ShippedFiles(), {.leave_one_out = true}));
  }
  static void TearDownTestSuite() {
    delete validation_;
    delete runs_;
  }
  static const GroupScore& Group(const std::string& name) {
    for (const GroupScore& group : validation_->groups) {
      if (group.name == name) {
        return group;
      }
    }
    ADD_FAILURE() << name;
    return validation_->groups.back();
  }

  static std::vector<MeasuredRun>* runs_;
  static Validation* validation_;
};
std::vector<MeasuredRun>* LeaveOneOut::runs_ = nullptr;
Validation* LeaveOneOut::validation_ = nullptr;

TEST_F(LeaveOneOut, SecondsAreWithinTheirTargets) {
  EXPECT_LE(Group("jean-zay-176b on jean-zay-a100").time_error, 0.045);
  EXPECT_LE(Group("jean-zay-1b3 on jean-zay-v100-32g").time_error, 0.05);
  EXPECT_LE(Group("perlmutter-pipeline on perlmutter").time_error, 0.10);
  EXPECT_LE(Group("jean-zay-bloom7b on jean-zay-a100").time_error, 0.25);
}

TEST_F(LeaveOneOut, MemoryIsWithinItsTargets) {
  EXPECT_LE(Group("jean-zay-176b on jean-zay-a100").memory_error, 0.06);
  EXPECT_LE(Group("all clean runs").memory_error, 0.10);
}

TEST_F(LeaveOneOut, EveryPipelineRunThatRanOutOfMemoryOnJeanZayIsFound) {
  for (const Prediction& prediction : validation_->predictions) {
    if (prediction.run->source == "jean-zay-176b" && prediction.run->ran_out_of_memory()) {
      EXPECT_FALSE(prediction.fits) << prediction.run->id;
    }
  }
  EXPECT_LE(validation_->false_alarms, 3);
  EXPECT_EQ(validation_->chosen_out_of_memory, 0);
}

TEST_F(LeaveOneOut, FirstChoicesAreNearlyTheBest) {
  EXPECT_GE(validation_->sets.size(), 15U);
  EXPECT_LE(validation_->mean_regret, 0.005);
  EXPECT_LE(validation_->worst_regret, 0.02);
  EXPECT_GE(validation_->mean_spearman, 0.75);
}

TEST_F(LeaveOneOut, IntervalsHoldWhatTheyPromise) {
  const GroupScore& large = Group("jean-zay-176b on jean-zay-a100");
  EXPECT_GE(large.covered, 0.70);
  EXPECT_LE(large.covered, 0.90);
  EXPECT_LE(large.half_width, 0.08);
  EXPECT_GE(Group("all clean runs").covered, 0.70);
  EXPECT_LE(Group("all clean runs").covered, 0.90);
}

TEST_F(LeaveOneOut, NothingIsDroppedSilently) {
  EXPECT_EQ(validation_->predictions.size() + validation_->unrepresented.size(), runs_->size());
  EXPECT_GT(validation_->suspect.timed, 0);
  const std::string text = ToText(*validation_);
  for (const Unrepresented& row : validation_->unrepresented) {
    EXPECT_NE(text.find(row.run->id), std::string::npos);
  }
  const std::string json = ToJson(*validation_);
  EXPECT_NE(json.find("\"predicted_seconds\""), std::string::npos);
  EXPECT_NE(json.find("\"predicted_days_per_100b\""), std::string::npos);
}

TEST(Validate, FiveRunsOfASiteAreEnough) {
  const std::vector<MeasuredRun> runs = LoadRuns(Source("tests/planner/published_runs.csv"));
  const Validation validation = Validate(runs, ShippedFiles(), {.fit = 5});
  int fitted = 0;
  for (const Prediction& prediction : validation.predictions) {
    fitted += prediction.fitted_on && prediction.run->source == "jean-zay-176b" ? 1 : 0;
  }
  EXPECT_EQ(fitted, 5);
  for (const GroupScore& group : validation.groups) {
    if (group.name == "jean-zay-176b on jean-zay-a100") {
      EXPECT_LE(group.time_error, 0.06);
    }
  }
}

// Megatron-LM's and DeepSpeed's published runs on DGX A100s: no calibration of that site exists.
TEST(Validate, RunsOfAnotherClusterAreWithinTheirIntervals) {
  const std::vector<MeasuredRun> runs = LoadRuns(Source("tests/planner/public_runs.csv"));
  const Validation validation = Validate(runs, ShippedFiles(), {});
  EXPECT_EQ(validation.predictions.size(), 18U);
  EXPECT_LE(validation.groups.back().time_error, 0.10);
  EXPECT_GE(validation.groups.back().covered, 0.75);
  for (const Prediction& prediction : validation.predictions) {
    EXPECT_TRUE(prediction.assumed_cluster) << prediction.run->id;
    EXPECT_TRUE(prediction.fits) << prediction.run->id;
  }
}

TEST(Validate, OurOwnRunsOnOneDeviceAreNear) {
  const std::vector<MeasuredRun> runs = LoadRuns(Source("tests/planner/own_runs.csv"));
  const Validation validation = Validate(runs, ShippedFiles(), {});
  EXPECT_EQ(validation.predictions.size(), 5U);
  EXPECT_LE(validation.groups.back().time_error, 0.06);
}

TEST(Validate, ShippedCalibrationsAreThoseOfTheTable) {
  // A stack file's calibration is made by this very code; a change of the model must come with new ones.
  const PlannerFiles files = ShippedFiles();
  std::vector<MeasuredRun> runs = LoadRuns(Source("tests/planner/published_runs.csv"));
  std::erase_if(runs, [](const MeasuredRun& run) { return run.source != "jean-zay-1b3" && run.id != "r000-ds3d-001"; });
  const SoftwareStack made = ParseStack("name = \"x\"\n" + CalibrationsText(runs, files), "x");
  const SoftwareStack shipped = test::ShippedStack("megatron-ds-2021");
  ASSERT_EQ(made.calibrations.size(), 1U);
  ASSERT_EQ(shipped.calibrations.size(), 1U);
  for (const EfficiencyField& field : EfficiencyFields()) {
    const double now = made.calibrations[0].efficiencies.*field.member;
    EXPECT_NEAR(now / (shipped.calibrations[0].efficiencies.*field.member), 1, 0.02) << field.name;
  }
}

}  // namespace
}  // namespace trireme
