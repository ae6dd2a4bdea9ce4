// The planner against measured runs, each table predicted by a calibration on the others.
#include "planner/validate.h"

#include "base/error.h"

namespace trireme {
namespace {

const std::string kSource = TRIREME_SOURCE_DIR;

class PublishedRuns : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    runs_ = new std::vector<MeasuredRun>(LoadRuns(kSource + "/tests/planner/published_runs.csv"));
    const PlannerFiles files = LoadPlannerFiles(kSource + "/clusters", kSource + "/stacks");
    validation_ = new Validation(Validate(*runs_, files, {.leave_one_out = true}));
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
    throw std::runtime_error("no group " + name);
  }
  static std::vector<MeasuredRun>* runs_;
  static Validation* validation_;
};
std::vector<MeasuredRun>* PublishedRuns::runs_ = nullptr;
Validation* PublishedRuns::validation_ = nullptr;

TEST_F(PublishedRuns, TimesArePredictedWithinTheirBounds) {
  EXPECT_LE(Group("jean-zay-176b on jean-zay-a100").time_error, 0.045);
  EXPECT_LE(Group("jean-zay-1b3 on jean-zay-v100-32g").time_error, 0.05);
  EXPECT_LE(Group("perlmutter-pipeline on perlmutter").time_error, 0.10);
  EXPECT_LE(Group("jean-zay-bloom7b on jean-zay-a100").time_error, 0.25);
}

TEST_F(PublishedRuns, MemoryIsPredictedWithinItsBounds) {
  EXPECT_LE(Group("jean-zay-176b on jean-zay-a100").memory_error, 0.06);
  EXPECT_LE(validation_->groups.back().memory_error, 0.10);
  EXPECT_LE(validation_->false_alarms, 3);
}

TEST_F(PublishedRuns, FirstChoicesAreNearlyTheBestAndNeverRunOutOfMemory) {
  EXPECT_LE(validation_->mean_regret, 0.005);
  EXPECT_LE(validation_->worst_regret, 0.02);
  EXPECT_EQ(validation_->chosen_out_of_memory, 0);
}

TEST_F(PublishedRuns, IntervalsCoverWhatTheyClaim) {
  const GroupScore& all = validation_->groups.back();
  EXPECT_GE(all.covered, 0.70);
  EXPECT_LE(all.covered, 0.90);
  EXPECT_LE(Group("jean-zay-176b on jean-zay-a100").half_width, 0.08);
}

TEST_F(PublishedRuns, NoRowIsDroppedSilently) {
  EXPECT_EQ(validation_->predictions.size() + validation_->unrepresented.size(), runs_->size());
  for (const Unrepresented& row : validation_->unrepresented) {
    EXPECT_FALSE(row.reason.empty()) << row.run->id;
  }
}

TEST(MeasuredRuns, NonsenseIsOneClearError) {
  EXPECT_THROW(ParseRuns("", "empty.csv"), Error);
  EXPECT_THROW(ParseRuns("a,b\n1,2\n", "columns.csv"), Error);
  EXPECT_THROW(ParseCsv("\"never closed", "quote.csv"), Error);
}

}  // namespace
}  // namespace trireme
