#include "report/measured_days.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "message_of.h"
#include "scratch_directory.h"

namespace trireme {
namespace {

using test::MessageOf;
using testing::HasSubstr;

TEST(DaysPoints, AreReadFromTablesOfManyKinds) {
  const std::vector<DaysCurve> named =
      ParseDaysPoints("name,devices,days,about\na,8,200,x\nb,16,57,\na,16,101,\nb,,3,\n", "m.csv", 100e9, "other");
  ASSERT_EQ(named.size(), 2U);
  EXPECT_EQ(named[0].points.size(), 2U);
  EXPECT_EQ(named[0].points[0].about, "x");
  EXPECT_EQ(named[1].points.size(), 1U);
  // What `bench` writes, for other tokens.
  const std::vector<DaysCurve> bench =
      ParseDaysPoints("case,GPUs,days/100B\ndp=2,2,10\nfailed,4,\n", "table.csv", 300e9, "mine");
  ASSERT_EQ(bench.size(), 1U);
  EXPECT_EQ(bench[0].name, "mine");
  ASSERT_EQ(bench[0].points.size(), 1U);
  EXPECT_DOUBLE_EQ(bench[0].points[0].days, 30);
  EXPECT_THAT(MessageOf([] { ParseDaysPoints("a,b\n1,2\n", "m.csv", 1e9, "x"); }), HasSubstr("it has a, b"));
}

TEST(MeasuredDays, OfRunsAreTheMediansOfTheirSteps) {
  const ScratchDirectory scratch;
  std::filesystem::create_directories(scratch / "runs/a");
  std::ofstream(scratch / "runs/a/run.toml")
      << "[model]\nlayers = 1\nhidden = 8\nheads = 1\nsequence = 8\nvocabulary = 16\n[layout]\ndata = 4\n";
  std::ofstream(scratch / "runs/a/metrics.jsonl") << R"({"step":1,"loss":4,"seconds":1,"tokens_per_second":1000}
{"step":2,"loss":4,"seconds":1,"tokens_per_second":2000}
{"step":3,"loss":4,"seconds":1,"tokens_per_second":3000}
)";
  const std::vector<DaysCurve> curves = ReadMeasuredDays(scratch / "runs", 86'400.0 * 2000 * 5);
  ASSERT_EQ(curves.size(), 1U);
  EXPECT_EQ(curves[0].name, "runs");
  ASSERT_EQ(curves[0].points.size(), 1U);
  EXPECT_EQ(curves[0].points[0].devices, 4);
  EXPECT_DOUBLE_EQ(curves[0].points[0].days, 5);
  EXPECT_THAT(MessageOf([&] { ReadMeasuredDays(scratch / "nothing", 1e9); }), HasSubstr("no folder of a run"));
}

}  // namespace
}  // namespace trireme
