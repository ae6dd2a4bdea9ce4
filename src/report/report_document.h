// The data of the report's page: one JSON object, columns of numbers as base64. web/src/document.ts reads it.
#pragma once

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
};

// JSON in ASCII that is safe within a script element: it holds no '<'.
std::string ReportDocument(const ReportInput& input);

// The rows that show a curve of `values` best in at most `most`: of each stretch the least and the greatest, and the
// ends. Ascending.
std::vector<std::size_t> ThinnedRows(const std::vector<double>& values, std::size_t most);

}  // namespace trireme
