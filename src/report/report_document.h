// The data of the report's page: one JSON object, columns of numbers as base64. web/src/document.ts reads it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "report/run_record.h"

namespace trireme {

// A table of a measured study, a CSV file with a heading.
struct ReportTable {
  std::string name;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

struct ReportInput {
  std::string program;  // "trireme 0.1.0"
  std::string made;     // when, for people
  std::vector<RunRecord> runs;
  std::vector<ReportTable> tables;
  std::vector<std::pair<std::string, std::string>> plans;  // name, JSON of `plan --json`
  std::vector<std::pair<std::string, TraceTimeline>> timelines;
  std::int64_t most_points = 1'000'000;  // over all runs; runs are thinned beyond
  std::int64_t live_version = -1;        // of a page that asks for changes (live_page.h); -1: a file, which does not
};

// JSON in ASCII that is safe within a script element: it holds no '<'.
std::string JsonInPage(const nlohmann::ordered_json& value);
std::string ReportDocument(const ReportInput& input);

// What a live page needs of a run that has changed: JSON as of the document's runs, with the steps from index `from`
// on. Without `timelines` the page keeps those that it has.
std::string RunUpdate(const RunRecord& run, std::int64_t from, bool timelines);

// The rows that show a curve of `values` best in at most `most`: of each stretch the least and the greatest, and the
// ends. Ascending.
std::vector<std::size_t> ThinnedRows(const std::vector<double>& values, std::size_t most);

}  // namespace trireme
