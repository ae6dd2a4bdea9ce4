#include "report/report_document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "operate/trace_recorder.h"
#include "planner/queries/trace_file.h"
#include "report/pages.h"
#include "report/report_page.h"
#include "report/status_screen.h"
#include "scratch_directory.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class Folder {
 public:
  void Write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(scratch_ / name).parent_path());
    WriteBytes(scratch_ / name, text);
  }
  const std::string& path() const { return path_; }

 private:
  ScratchDirectory scratch_;
  std::string path_ = scratch_.path().string();
};

constexpr const char* kMetrics =
    R"({"step":1,"loss":4.0,"seconds":0.5,"consumed_tokens":64,"tokens_per_second":128.0,"memory_bytes":1000}
{"step":1,"validation_loss":4.5}
{"step":2,"loss":null,"seconds":1.5,"consumed_tokens":128,"causes":{"forward":0.25,"backward":0.5}}
{"step":2,"loss":9,"seconds":7}
no line
{"step":3,"loss":3.5,"seco)";

TEST(ReadRun, TakesWhatIsWholeAndLeavesOutTheRest) {
  const Folder folder;
  folder.Write("metrics.jsonl", kMetrics);
  folder.Write("run.toml", "[train]\nsteps = 7\n[layout]\ndata = 2\n[batch]\nglobal = 4\n");
  folder.Write("memory.json", R"({"measured":[{"rank":1,"stage":0,"kinds":{"weights":12}},7],"planned":"x"})");
  folder.Write("prediction.json", R"({"seconds":0.75,"causes":{"forward":0.5},"knowledge":"a test"})");
  folder.Write("events.jsonl", "{\"step\":2,\"kind\":\"spike\",\"text\":\"up\",\"time\":5}\nnothing\n");
  folder.Write("machine.json", "[broken");
  const RunRecord run = ReadRun(folder.path());
  EXPECT_THAT(run.metrics.step, ElementsAre(1, 2));
  EXPECT_THAT(run.metrics.tokens, ElementsAre(64, 128));
  EXPECT_DOUBLE_EQ(run.metrics.hours[1], 2.0 / 3600);
  EXPECT_TRUE(std::isnan(run.metrics.loss[1]));
  EXPECT_THAT(run.metrics.validation_loss, ElementsAre(4.5));
  EXPECT_EQ(run.total_steps, 7);
  EXPECT_EQ(run.ranks, 2);
  EXPECT_EQ(run.config.at("layout.data"), "2");
  ASSERT_EQ(run.measured_memory.size(), 1U);
  EXPECT_EQ(run.measured_memory[0].kinds.at("weights"), 12);
  EXPECT_TRUE(run.planned_memory.empty());
  EXPECT_EQ(run.predicted_seconds, 0.75);
  EXPECT_EQ(run.MedianCauses().at("forward"), 0.25);
  ASSERT_EQ(run.events.size(), 1U);
  EXPECT_EQ(run.events[0].kind, "spike");
  EXPECT_TRUE(run.machine.empty());
}

TEST(ReadRun, RefusesAFolderThatIsNone) {
  const Folder folder;
  EXPECT_THAT([&] { ReadRun(folder.path()); }, testing::Throws<std::exception>());
}

TEST(ReportDocument, KeepsHostileNamesAsData) {
  ReportInput input;
  input.runs.resize(1);
  input.runs[0].name = "</script><script>alert(1)</script>";
  input.runs[0].config["<b>"] = "\xFF";
  const std::string document = ReportDocument(input);
  EXPECT_THAT(document, Not(HasSubstr("<")));
  const nlohmann::json value = ParseJson(document);
  EXPECT_EQ(value["runs"][0]["name"], input.runs[0].name);
}

TEST(ReportDocument, ColumnsAreBase64OfLittleEndianNumbers) {
  const Folder folder;
  folder.Write("metrics.jsonl", kMetrics);
  const nlohmann::json value = ParseJson(ReportDocument(ReadReportInput({folder.path()})));
  EXPECT_EQ(value["runs"][0]["columns"]["step"], "AAAAAAAA8D8AAAAAAAAAQA==");  // float64 1, 2
  EXPECT_EQ(value["runs"][0]["columns"]["seconds"], "AAAAPwAAwD8=");           // float32 0.5, 1.5
  EXPECT_EQ(value["runs"][0]["summary"]["loss"], 4.0);
}

TEST(ThinnedRows, KeepExtremesAndEnds) {
  std::vector<double> values(100'000, 1.0);
  values[12'345] = 50;
  values[54'321] = -50;
  const std::vector<std::size_t> rows = ThinnedRows(values, 1000);
  EXPECT_LE(rows.size(), 1000U);
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
  for (const std::size_t row : {0, 12'345, 54'321, 99'999}) {
    EXPECT_TRUE(std::binary_search(rows.begin(), rows.end(), row)) << row;
  }
  EXPECT_EQ(ThinnedRows(values, 200'000).size(), values.size());
}

TEST(ReadReportInput, KnowsRunsTablesPlansAndTimelines) {
  const Folder folder;
  folder.Write("runs/b/metrics.jsonl", kMetrics);
  folder.Write("runs/a/metrics.jsonl", kMetrics);
  folder.Write("study.csv", "layout,seconds\n\"tp=2, pp=1\",0.5\n");
  folder.Write("plan.json", R"({"layouts":[]})");
  TraceFile trace;
  const int track = trace.AddTrack(trace.AddProcess("predicted"), "stage 0");
  trace.AddSlice(
      {.track = track, .name = "forward 0.3", .kind = "forward", .start = 0.5, .seconds = 0.25, .micro_batch = 3});
  folder.Write("trace.json", trace.ToJson());
  const ReportInput input = ReadReportInput({folder.path() + "/runs", folder.path() + "/study.csv",
                                             folder.path() + "/plan.json", folder.path() + "/trace.json"});
  ASSERT_EQ(input.runs.size(), 2U);
  EXPECT_EQ(input.runs[0].name, "a");
  ASSERT_EQ(input.tables.size(), 1U);
  EXPECT_THAT(input.tables[0].rows[0], ElementsAre("tp=2, pp=1", "0.5"));
  EXPECT_EQ(input.plans.size(), 1U);
  ASSERT_EQ(input.timelines.size(), 1U);
  const TraceTrack& read = input.timelines[0].second.tracks.at(0);
  EXPECT_EQ(read.name, "stage 0");
  EXPECT_THAT(read.start, ElementsAre(testing::DoubleNear(0.5, 1e-9)));
  EXPECT_THAT(read.micro_batch, ElementsAre(3));
  folder.Write("study/table.csv", "case,seconds\na,0.5\n");
  folder.Write("study/runs/1234/metrics.jsonl", kMetrics);
  const ReportInput study = ReadReportInput({folder.path() + "/study"});
  EXPECT_EQ(study.tables.size(), 1U);
  EXPECT_EQ(study.runs.size(), 1U);
  EXPECT_THAT([&] { ReadReportInput({folder.path() + "/nothing"}); }, testing::Throws<std::exception>());
}

TEST(ReadTrace, CallsOfAGroupAreAKindOfTheirOwn) {
  const Folder folder;
  TraceFile trace;
  const int process = trace.AddProcess("measured, step 2");
  const int work = trace.AddTrack(process, "rank 0, stage 0");
  const int calls = trace.AddTrack(process, "rank 0 communication");
  trace.AddSlice({.track = work, .name = "forward 0", .kind = "forward", .start = 0, .seconds = 1, .micro_batch = 0});
  trace.AddSlice({.track = calls, .name = "tensor all_gather of 64", .kind = "all_gather", .start = 0, .seconds = 0.5});
  folder.Write("trace.json", trace.ToJson());
  const std::vector<TraceTimeline> read = ReadTrace(folder.path() + "/trace.json");
  ASSERT_EQ(read.size(), 1U);
  EXPECT_THAT(read[0].kinds, ElementsAre("forward", "tensor all_gather"));
  ASSERT_EQ(read[0].tracks.size(), 2U);
  EXPECT_EQ(read[0].tracks[1].name, "rank 0 communication");
}

TEST(TraceRecorder, ShowsSavesAndValidationsAfterATracedStep) {
  TraceRecorder recorder({.first = 2, .last = 2});
  for (const char* const phase : {"batch", "update", "check", "validate", "save", "end"}) {
    recorder.PhaseBegan(2, phase, -1, 10);
  }
  std::vector<std::string> phases;
  for (const TracedPhase& phase : recorder.trace().phases) {
    phases.push_back(phase.name);
  }
  EXPECT_THAT(phases, ElementsAre("batch", "update", "validate", "save"));
}

// A program that was built without Node.js says what to do; one with pages puts the data into the page.
TEST(ReportHtml, IsThePageWithItsDataOrSaysWhyThereIsNone) {
  ReportInput input;
  input.runs.resize(1);
  input.runs[0].name = "the run";
  if (ReportPage().empty()) {
    EXPECT_FALSE(PagesAbsence().empty());
    EXPECT_THAT([&] { ReportHtml(input); },
                testing::ThrowsMessage<std::exception>(HasSubstr("the report's page is not built in")));
    return;
  }
  const std::string html = ReportHtml(input);
  EXPECT_THAT(html, testing::StartsWith("<!doctype html>"));
  EXPECT_THAT(html, HasSubstr(R"("name":"the run")"));
  EXPECT_THAT(html, testing::EndsWith("</html>\n"));
}

TEST(StatusScreen, FitsTheWidthAndHasNoEscapesWithoutColour) {
  ScreenFacts facts{.title = "a run", .state = "running", .step = 50, .total_steps = 200};
  for (int i = 0; i < 50; ++i) {
    facts.losses.push_back(8 - 0.1 * i);
  }
  facts.seconds = 2;
  facts.predicted_seconds = 1;
  facts.tokens_per_second = 12'345;
  facts.events = {"step 1: started",
                  "step 40: a spike that needs a great many words to be told in full, and then some"};
  const std::string plain = StatusScreen(facts, {.width = 60});
  EXPECT_THAT(plain, Not(HasSubstr("\033")));
  EXPECT_THAT(plain, HasSubstr("step 50 of 200"));
  EXPECT_THAT(plain, HasSubstr("5:00 left"));
  EXPECT_THAT(plain, HasSubstr("2.0× slower than predicted (1 s)"));
  int column = 0;
  for (const char letter : plain) {
    column = letter == '\n' ? 0 : column + ((static_cast<unsigned char>(letter) & 0xC0) != 0x80);
    EXPECT_LE(column, 60);
  }
  EXPECT_THAT(StatusScreen(facts, {.width = 60, .colour = true}), HasSubstr("\033[1m"));
}

TEST(StatusScreen, SaysThatTheLastLossIsNotFinite) {
  ScreenFacts facts{.title = "a run", .state = "finished", .step = 4, .total_steps = 4};
  facts.losses = {6, 5.7038, std::nan(""), std::nan("")};
  EXPECT_THAT(StatusScreen(facts, {.width = 90}), HasSubstr("loss not finite for 2 steps, 5.7038 before"));
  facts.losses.push_back(5.5);
  EXPECT_THAT(StatusScreen(facts, {.width = 90}), HasSubstr("loss 5.5000"));
}

TEST(Sparkline, FallsWithItsValues) {
  EXPECT_EQ(Sparkline({8, 7, 6, 5, 4, 3, 2, 1}, 8), "█▇▆▅▄▃▂▁");
  EXPECT_EQ(Sparkline({1, std::nan(""), 1}, 8), "▁▁");
  EXPECT_EQ(Sparkline({}, 8), "");
}

}  // namespace
}  // namespace trireme
