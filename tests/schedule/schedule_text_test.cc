#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "damaged.h"
#include "schedule/schedule.h"

namespace trireme {
namespace {

using testing::HasSubstr;

constexpr const char* kHeader = "trireme-schedule 1 name=mine stages=1 chunks=1 micro_batches=1\n";

std::string MessageOf(const std::string& text) {
  try {
    ParseSchedule(text, "mine.schedule");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ScheduleText, IsReadBack) {
  for (const ScheduleKind& kind : ScheduleKinds()) {
    const Schedule schedule = MakeSchedule(kind.name, 4, std::min(kind.most_chunks, 3), 8);
    EXPECT_EQ(ParseSchedule(ToText(schedule), "text"), schedule) << kind.name;
  }
}

TEST(ScheduleText, MessagesMayBeLeftOut) {
  const Schedule schedule = ParseSchedule(
      "# a comment\n\ntrireme-schedule 1 name=1f1b stages=2 chunks=1 micro_batches=1  # counts\n"
      "stage 0: F0.0 B0.0\r\n"
      "stage 1:\tF0.0   B0.0",
      "text");
  EXPECT_EQ(schedule, MakeSchedule("1f1b", 2, 1, 1));
}

TEST(ScheduleText, TellsThePlacement) {
  const Schedule schedule = ParseSchedule(
      "trireme-schedule 1 name=mine stages=2 chunks=2 micro_batches=1 placement=v\n"
      "stage 0: F0.0 F1.0 B1.0 B0.0\n"
      "stage 1: F0.0 F1.0 B1.0 B0.0\n",
      "text");
  EXPECT_EQ(schedule.placement().HeadStage(), 0);
  EXPECT_THAT(ToText(schedule), HasSubstr("placement=v\nstage 0: F0.0 SF0.0 RF1.0 F1.0 B1.0 SB1.0 RB0.0 B0.0\n"
                                          "stage 1: RF0.0 F0.0 F1.0 SF1.0 RB1.0 B1.0 B0.0 SB0.0\n"));
  EXPECT_EQ(ParseSchedule(ToText(schedule), "text"), schedule);
  EXPECT_THAT(MessageOf("trireme-schedule 1 name=mine stages=1 chunks=1 micro_batches=1 placement=w\n"),
              HasSubstr("'placement=w' follows the header's counts; known: placement=v, placement=round_robin"));
}

TEST(ScheduleText, ErrorsNameTheLine) {
  EXPECT_THAT(MessageOf(""), HasSubstr("is no schedule"));
  EXPECT_THAT(MessageOf("trireme-schedule 2 name=x"), HasSubstr("line 1"));
  EXPECT_THAT(MessageOf("trireme-schedule 1 name=x stages=two"), HasSubstr("'stages=two' needs a whole number"));
  EXPECT_THAT(MessageOf("trireme-schedule 1 name=x stages=0"), HasSubstr("at least 1"));
  EXPECT_THAT(MessageOf(std::string(kHeader) + "stage 1: F0.0"), HasSubstr("should be 'stage 0: ...'"));
  EXPECT_THAT(MessageOf(std::string(kHeader) + "stage 0: F0.0 X0.0"), HasSubstr("line 2: 'X0.0' is no action"));
  EXPECT_THAT(MessageOf(std::string(kHeader) + "stage 0: F0"), HasSubstr("lacks the point"));
  EXPECT_THAT(MessageOf(std::string(kHeader) + "stage 0: F0.1"), HasSubstr("from 0 to 0"));
  EXPECT_THAT(MessageOf(std::string(kHeader) + "stage 0: F0.0 B0.0\nstage 1: F0.0"),
              HasSubstr("follows the last stage"));
  EXPECT_THAT(MessageOf(std::string(kHeader) + "stage 0: F0.0"), HasSubstr("B0.0 is missing"));
}

TEST(ScheduleText, HostileCountsAreRefusedBeforeTheyCostAnything) {
  EXPECT_THAT(MessageOf("trireme-schedule 1 name=x stages=99999999999 chunks=1 micro_batches=1"),
              HasSubstr("0 to 65536"));
  EXPECT_THAT(MessageOf("trireme-schedule 1 name=x stages=65536 chunks=65536 micro_batches=4000000"),
              HasSubstr("counts more than"));
  std::string endless = std::string(kHeader) + "stage 0:";
  for (int i = 0; i < 1000; ++i) {
    endless += " F0.0";
  }
  EXPECT_THAT(MessageOf(endless), HasSubstr("one action more"));
  EXPECT_LT(MessageOf(std::string(100'000, 'x')).size(), 300U);
}

// Any change of a few bytes must end in a schedule or an Error, nothing else.
TEST(ScheduleText, NamesADoubledAction) {
  std::string text = ToText(MakeSchedule("gpipe", 1, 1, 2));
  text.insert(text.find(" B0.1"), " F0.1");
  EXPECT_THAT(MessageOf(text), HasSubstr("line 2: F0.1 stands twice in the list of stage 0"));
}

TEST(ScheduleText, SurvivesDamage) {
  const std::string whole = ToText(MakeSchedule("zero_bubble", 3, 1, 4));
  for (std::uint64_t draw = 0; draw < 3000; ++draw) {
    const std::string text = Damaged(whole, draw);
    MessageOf(text);
  }
}

TEST(MakeSchedule, ReadsAFileWrittenForTheseCounts) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / fmt::format("trireme_{}.schedule", getpid());
  std::ofstream(path) << ToText(MakeSchedule("1f1b", 2, 1, 4));
  EXPECT_EQ(MakeSchedule(path.string(), 2, 1, 4), MakeSchedule("1f1b", 2, 1, 4));
  try {
    MakeSchedule(path.string(), 2, 1, 8);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("4 micro batches, but the run has 2, 1 and 8"));
  }
  std::filesystem::remove(path);
  EXPECT_THROW(MakeSchedule(path.string(), 2, 1, 4), Error);
}

}  // namespace
}  // namespace trireme
