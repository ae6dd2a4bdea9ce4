#include "operate/flight_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "operate/stragglers.h"
#include "operate/trace_recorder.h"
#include "report/diagnose.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Ranks of a layout of data 2 x tensor 2; each has made `done` calls in the group and, when `in`, one more that stands.
RankRecord At(int rank, const std::string& group, std::int64_t done, bool in, int pipeline = 1) {
  RankRecord record;
  record.rank = rank;
  record.layout.tensor = 2;
  record.layout.pipeline = pipeline;
  record.layout.data = 2;
  record.step = 5;
  record.phase = "reduce";
  record.heartbeat_ns = 1'000'000'000 + rank;
  record.groups.push_back({.name = group, .started = in ? done : done - 1, .ended = done - 1});
  for (std::int64_t i = 0; i < done + (in ? 1 : 0); ++i) {
    record.calls.push_back({.group = group,
                            .sequence = i,
                            .call = {.kind = CollectiveKind::kAllReduce, .count = 8},
                            .started_ns = 1000 * i + 10 * rank,
                            .ended_ns = i < done ? 1000 * i + 500 : 0});
  }
  return record;
}

TEST(FlightReport, NamesTheRankThatOthersWaitFor) {
  const FlightReport report =
      MakeReport({At(0, "world", 4, true), At(1, "world", 4, true), At(2, "world", 4, false), At(3, "world", 4, true)});
  EXPECT_THAT(report.suspects, ElementsAre(2));
  EXPECT_FALSE(report.deadlock);
  EXPECT_THAT(report.waits_for[0], ElementsAre(2));
  EXPECT_THAT(report.headline, HasSubstr("rank 2 stopped first"));
  EXPECT_THAT(report.headline, HasSubstr("'reduce' of step 5"));
  EXPECT_THAT(report.headline, HasSubstr("rank 0, 1 and 3 wait"));
}

// As At, with calls that a device does: the last one is on its stream and has not ended.
RankRecord OnDevice(int rank, std::int64_t done, std::int64_t count) {
  RankRecord record = At(rank, "world", done, true);
  for (LedgerCall& call : record.calls) {
    call.enqueued_ns = call.started_ns + 1;
    call.running_ns = call.started_ns + 2;
  }
  record.calls.back().call.count = count;
  record.calls.back().stream = 1;
  return record;
}

TEST(FlightReport, NamesARankThatDevicesWaitFor) {
  const FlightReport report =
      MakeReport({OnDevice(0, 4, 8), OnDevice(1, 4, 8), At(2, "world", 4, false), OnDevice(3, 4, 8)});
  EXPECT_THAT(report.suspects, ElementsAre(2));
  EXPECT_THAT(DescribePlace(report.ranks[0]),
              HasSubstr("number 4 of group 'world', running on stream 1 of its device"));
}

TEST(FlightReport, NamesCallsThatDevicesCannotEnd) {
  EXPECT_THAT(MakeReport({OnDevice(0, 4, 8), OnDevice(1, 4, 8), OnDevice(2, 4, 6), OnDevice(3, 4, 8)}).headline,
              HasSubstr("rank 0 called all_reduce of 8 fp32 (sum), but rank 2 called all_reduce of 6 fp32 (sum), as "
                        "number 4 of group 'world'"));
  EXPECT_THAT(MakeReport({OnDevice(0, 4, 8), OnDevice(1, 4, 8), OnDevice(2, 4, 8), OnDevice(3, 4, 8)}).headline,
              HasSubstr("which every member has enqueued"));
}

TEST(FlightReport, FollowsWaitsThroughGroupsToTheirRoot) {
  // 0 and 1 share a tensor group, 0 and 2 a data group: 1 waits for 0, which waits for 2, which computes.
  const FlightReport report =
      MakeReport({At(0, "data", 2, true), At(1, "tensor", 3, true), At(2, "data", 2, false), At(3, "data", 1, false)});
  EXPECT_THAT(report.waits_for[0], ElementsAre(2));
  EXPECT_THAT(report.waits_for[1], ElementsAre(0));
  EXPECT_THAT(report.suspects, ElementsAre(2));
}

TEST(FlightReport, ARingOfWaitsIsADeadlock) {
  const FlightReport report =
      MakeReport({At(0, "tensor", 2, true), At(1, "data", 2, true), At(2, "data", 2, true), At(3, "tensor", 2, true)});
  EXPECT_TRUE(report.deadlock);
  EXPECT_THAT(report.suspects, ElementsAre(0, 1, 2, 3));
}

TEST(FlightReport, TheFirstFailureIsTheCauseAndEchoesAreNot) {
  RankRecord first = At(1, "world", 2, false);
  first.end = LedgerEnd::kFailed;
  first.end_ns = 900;
  first.message = "out of luck";
  RankRecord echo = At(0, "world", 2, true);
  echo.end = LedgerEnd::kFailed;
  echo.end_ns = 800;  // clocks of two machines
  echo.message = "rank 1: out of luck";
  const FlightReport report = MakeReport({echo, first});
  EXPECT_THAT(report.suspects, ElementsAre(1));
  EXPECT_THAT(report.headline, HasSubstr("rank 1 failed first"));
  EXPECT_THAT(report.missing, ElementsAre(2, 3));
}

TEST(FlightReport, ReceiversWaitForTheirSender) {
  RankRecord receiver = At(2, "pipeline", 0, true, 2);
  receiver.calls.back().call = {.kind = CollectiveKind::kReceive, .count = 8, .peer = 0, .tag = 4};
  std::vector<RankRecord> ranks = {receiver};
  for (int rank = 0; rank < 8; ++rank) {
    if (rank != 2) {
      ranks.push_back(At(rank, "world", 1, false, 2));
    }
  }
  const FlightReport report = MakeReport(ranks);
  const std::vector<int> members = GroupMembers(receiver.layout, "pipeline", 2);
  EXPECT_THAT(report.waits_for[2], ElementsAre(members[0]));
}

TEST(FlightReport, GroupsOfUlyssesAndRingHaveTheirMembers) {
  const ParallelLayout layout{.tensor = 2, .context = 4};
  EXPECT_THAT(GroupMembers(layout, "context", 1), ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(GroupMembers(layout, "context_heads2", 5), ElementsAre(5, 7));
  EXPECT_THAT(GroupMembers(layout, "context_ring2", 5), ElementsAre(1, 5));
}

// Ranks 0 and 1 of a tensor group meet `meetings` times, a millisecond apart; `late(i)` milliseconds are those of rank
// 1 behind rank 0.
template <typename Late>
std::vector<RankRecord> Pair(int meetings, const std::string& group, const Late& late) {
  std::vector<RankRecord> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    RankRecord record = At(rank, group, meetings, false);
    for (int i = 0; i < meetings; ++i) {
      record.calls[static_cast<std::size_t>(i)].started_ns =
          1'000'000'000 + 1'000'000 * i + (rank == 1 ? static_cast<std::int64_t>(late(i) * 1e6) : 0);
    }
    ranks.push_back(record);
  }
  return ranks;
}

TEST(Stragglers, OneThatOthersAlwaysWaitForIsNamed) {
  const auto found = FindStragglers(Pair(200, "tensor", [](int) { return 0.3; }), 0.1);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_NEAR(found[0].share, 0.3, 0.01);
  EXPECT_THAT(found[0].text, HasSubstr("rank 1 is the last of its group in 20 of 20 spans"));
}

TEST(Stragglers, OneThatIsSlowOnceAStepIsNamed) {
  const auto found = FindStragglers(Pair(200, "tensor", [](int i) { return i % 8 == 0 ? 4 : -0.01; }), 0.1);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 1);
}

TEST(Stragglers, RanksThatAreLateByTurnsAreNot) {
  EXPECT_TRUE(FindStragglers(Pair(200, "tensor", [](int i) { return i / 10 % 2 == 0 ? 0.9 : -0.5; }), 0.1).empty());
}

TEST(Stragglers, ALongDelayNowAndThenIsNoStraggler) {
  EXPECT_TRUE(FindStragglers(Pair(200, "tensor", [](int i) { return i % 100 == 0 ? 50 : -0.01; }), 0.1).empty());
}

TEST(Stragglers, ThatCostNothingAndThoseOfOtherGroupsAreNotNamed) {
  EXPECT_TRUE(FindStragglers(Pair(200, "tensor", [](int) { return 0.01; }), 0.1).empty());
  EXPECT_TRUE(FindStragglers(Pair(200, "world", [](int) { return 0.3; }), 0.1).empty());
}

// A rank in the backward pass of a step for which all others wait, as they do in such a layout: its tensor group for
// it, the data groups of these for them, every pipeline for its stage.
std::vector<RankRecord> HungRun(const ParallelLayout& layout, int hung) {
  const ProcessGrid grid(layout);
  const Coordinate place = grid.CoordinateOf(hung);
  std::vector<RankRecord> ranks;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    const Coordinate at = grid.CoordinateOf(rank);
    const bool peer = at.pipeline == place.pipeline && at.data == place.data;
    const std::string group = peer ? "tensor" : at.data == place.data ? "pipeline" : "data";
    RankRecord record;
    record.rank = rank;
    record.layout = layout;
    record.step = 7;
    record.phase = rank == hung ? "backward" : group == "data" ? "reduce" : "receive";
    record.phase_ns = record.heartbeat_ns = 1'000'000'000 + rank;
    record.pid = getpid();
    record.process_start = ProcessStart(getpid());
    record.groups = {{"tensor", rank == hung ? 9 : 10, 9}, {"pipeline", 4 + at.pipeline, 3 + at.pipeline}};
    record.groups.push_back({"data", group == "data" ? 3 : 2, 2});
    if (rank != hung) {
      const bool message = group == "pipeline";
      record.calls.push_back({.group = group,
                              .sequence = group == "tensor" ? 10
                                          : message         ? 4 + at.pipeline
                                                            : 3,
                              .call = {.kind = message ? CollectiveKind::kReceive : CollectiveKind::kAllReduce,
                                       .count = 8,
                                       .peer = at.pipeline < place.pipeline ? at.pipeline + 1 : at.pipeline - 1},
                              .started_ns = 1'000'000'000});
    }
    ranks.push_back(std::move(record));
  }
  return ranks;
}

TEST(FlightReport, OfThousandsOfRanksFitsAScreenAndNamesTheOne) {
  ParallelLayout layout;
  layout.tensor = 4;
  layout.pipeline = 16;
  layout.data = 64;
  constexpr int kHung = 1234;
  const FlightReport report = MakeReport(HungRun(layout, kHung));
  EXPECT_THAT(report.suspects, ElementsAre(kHung));
  const std::string text = DescribeFlight(report);
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 40) << text;
  EXPECT_THAT(text, HasSubstr("rank 1234 stopped first: in phase 'backward' of step 7"));
  EXPECT_THAT(text, HasSubstr("rank 1234: step 7, phase 'backward', in no collective"));
  EXPECT_THAT(text,
              HasSubstr("(4032): step 7, phase 'reduce', in all_reduce of group 'data', waits for ranks of its group"));
  std::size_t longest = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    longest = std::max(longest, end - begin);
    begin = end + 1;
  }
  EXPECT_LE(longest, 250U);
}

TEST(FlightReport, RangesOfRanksAreShort) {
  EXPECT_EQ(RankRanges({}), "");
  EXPECT_EQ(RankRanges({3}), "3");
  EXPECT_EQ(RankRanges({0, 1, 2, 5, 7, 8}), "0-2 5 7-8");
  std::vector<int> even;
  for (int rank = 0; rank < 100; rank += 2) {
    even.push_back(rank);
  }
  EXPECT_EQ(RankRanges(even), "0 2 4 6 8 10 and 44 more");
}

TEST(RankTraces, OfManyRanksAreASample) {
  ParallelLayout layout;
  layout.data = 16;
  EXPECT_EQ(TracedRanks(layout, 3).size(), 16U);
  layout.tensor = 4;
  layout.pipeline = 64;
  const std::vector<int> traced = TracedRanks(layout, 777);
  EXPECT_LE(traced.size(), 16U);
  for (const int rank : {0, 777, layout.ranks() - 1}) {
    EXPECT_THAT(traced, testing::Contains(rank));
  }
  const ProcessGrid grid(layout);
  std::set<int> stages;
  for (const int rank : traced) {
    stages.insert(grid.CoordinateOf(rank).pipeline);
  }
  EXPECT_GE(stages.size(), 13U);
  layout.pipeline = 4;
  EXPECT_LE(TracedRanks(layout, 5).size(), 7U) << "one a stage, the last and the slowest";
}

TEST(FlightReport, DiagnoseTellsItInWordsAndRefusesAnEmptyFolder) {
  const std::string folder =
      (std::filesystem::temp_directory_path() / fmt::format("trireme-report-{}", getpid())).string();
  EXPECT_THROW(Diagnose(folder), Error);
  ParallelLayout layout;
  layout.data = 2;
  Ledger stuck(folder + "/flight", 0, layout);
  Ledger waiting(folder + "/flight", 1, layout);
  stuck.SetPhase(4, "forward");
  waiting.SetPhase(4, "reduce");
  waiting.Started("data", 0, {.kind = CollectiveKind::kAllReduce, .count = 8});
  const Diagnosis diagnosis = Diagnose(folder);
  EXPECT_EQ(diagnosis.status, 1);
  EXPECT_THAT(diagnosis.text, HasSubstr("rank 0 stopped first: in phase 'forward' of step 4"));
  EXPECT_THAT(diagnosis.text, HasSubstr("all_reduce of 8"));
  EXPECT_THAT(diagnosis.text, HasSubstr("timeline"));
  EXPECT_THAT(diagnosis.json, HasSubstr("\"suspects\": [\n    0\n  ]"));
  stuck.Finish(LedgerEnd::kFinished, "");
  waiting.Finish(LedgerEnd::kFinished, "");
  EXPECT_EQ(Diagnose(folder).status, 0);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace trireme
