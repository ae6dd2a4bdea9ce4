// The pages of web/, as the build embedded them: whole HTML files with a place for their data.
#pragma once

#include <string_view>

namespace trireme {

// Empty where the program was built without Node.js; then PagesAbsence() says why and what to do.
std::string_view ReportPage();
std::string_view PagesAbsence();
// The planner with its page, complete. Empty where Emscripten was missing too; then PlannerPageAbsence() says why.
std::string_view PlannerPage();
std::string_view PlannerPageAbsence();
// A page for the answers to one question of the planner, without the planner. Built wherever ReportPage() is.
std::string_view AnswersPage();

}  // namespace trireme
