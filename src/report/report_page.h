// `trireme report PATH…`: run folders, tables of `bench` (.csv), plans and timelines of `plan` (.json), read and put
// into one self-contained HTML file.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "report/report_document.h"

namespace trireme {

// Reads what the paths name. A folder that is no run but holds runs stands for all of them; that of a study
// (`trireme bench`) for its table and its runs. An Error names a path that
// is none of these.
ReportInput ReadReportInput(const std::vector<std::string>& paths);

// The planner's page for one question with its answers; web/src/answers.ts reads them. An Error as below.
std::string AnswersHtml(const nlohmann::ordered_json& answers);

// The page with its data. An Error where the program was built without pages.
std::string ReportHtml(const ReportInput& input);

}  // namespace trireme
