#include "report/report_page.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/csv.h"
#include "base/durable_file.h"
#include "base/error.h"
#include "base/json_text.h"
#include "report/pages.h"
#include "report/run_names.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kLargestFile = std::int64_t{1} << 30;
constexpr std::string_view kPlace = R"(id="trireme-data">null<)";
// The policy of the page's file; a live page may also ask the server that it came from.
constexpr std::string_view kNoRequests = "default-src 'none';";
constexpr std::string_view kOwnRequests = "default-src 'none'; connect-src 'self';";

ReportTable ReadTable(const std::string& path) {
  std::vector<std::vector<std::string>> records = ParseCsv(ReadWholeFile(path, kLargestFile), path);
  Require(records.size() > 1 && records.front().size() > 1, "'{}' is no table: a CSV file with a heading is wanted",
          path);
  ReportTable table{.name = fs::path(path).stem().string(), .columns = records.front(), .rows = {}};
  for (auto record = records.begin() + 1; record != records.end(); ++record) {
    record->resize(table.columns.size());
    table.rows.push_back(std::move(*record));
  }
  return table;
}

void ReadJsonFile(const std::string& path, ReportInput& input) {
  const std::vector<TraceTimeline> timelines = ReadTrace(path);
  for (const TraceTimeline& timeline : timelines) {
    input.timelines.emplace_back(fs::path(path).filename().string(), timeline);
  }
  if (!timelines.empty()) {
    return;
  }
  const std::string text = ReadWholeFile(path, kLargestFile);
  const nlohmann::json value = ParseJsonOrDiscard(text);
  Require(value.is_object(), "'{}' is neither a trace nor what `trireme plan --json` prints", path);
  input.plans.emplace_back(fs::path(path).filename().string(), JsonText(value));
}

void ReadPath(const std::string& path, ReportInput& input) {
  std::error_code status;
  if (IsRunFolder(path)) {
    input.runs.push_back(ReadRun(path));
  } else if (fs::exists(path + "/table.csv", status)) {
    input.tables.push_back(ReadTable(path + "/table.csv"));
    input.tables.back().name = fs::path(path).lexically_normal().string();
    if (fs::is_directory(path + "/runs", status) && !fs::is_empty(path + "/runs", status)) {
      ReadPath(path + "/runs", input);
    }
  } else if (fs::is_directory(path, status)) {
    for (const std::string& run : RunFoldersOf(path)) {
      input.runs.push_back(ReadRun(run));
    }
  } else if (path.ends_with(".csv")) {
    input.tables.push_back(ReadTable(path));
  } else if (path.ends_with(".json")) {
    ReadJsonFile(path, input);
  } else {
    Fail("'{}' is {}: name folders of runs, tables (.csv) of `trireme bench`, plans or timelines (.json)", path,
         fs::exists(path, status) ? "no run" : "not there");
  }
}

std::string WithData(std::string_view page, const std::string& data) {
  Require(!page.empty(), "the report's page is not built in: {}", PagesAbsence());
  const std::size_t place = page.find(kPlace);
  Require(place != std::string_view::npos, "the page that is built in has no place for the data");
  std::string html(page.substr(0, place + kPlace.size() - 5));
  html += data;
  html += page.substr(place + kPlace.size() - 1);
  return html;
}

}  // namespace

ReportInput ReadReportInput(const std::vector<std::string>& paths) {
  ReportInput input;
  for (const std::string& path : paths) {
    ReadPath(path, input);
  }
  std::vector<std::string> folders;
  for (const RunRecord& run : input.runs) {
    folders.push_back(run.path);
  }
  const std::vector<std::string> names = NamesOfRuns(folders);
  for (std::size_t i = 0; i < names.size(); ++i) {
    input.runs[i].name = names[i];
  }
  return input;
}

std::string AnswersHtml(const nlohmann::ordered_json& answers) { return WithData(AnswersPage(), JsonInPage(answers)); }

std::string ReportHtml(const ReportInput& input) {
  std::string html = WithData(ReportPage(), ReportDocument(input));
  if (input.live_version >= 0) {
    const std::size_t policy = html.find(kNoRequests);
    Require(policy != std::string::npos, "the page that is built in has no policy for requests");
    html.replace(policy, kNoRequests.size(), kOwnRequests);
  }
  return html;
}

}  // namespace trireme
