// `plan --cases`, `--grid`, `--case`: many questions, answered as one table and drawn as days against devices.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planner/queries/plan_cases.h"

namespace CLI {
class App;
}

namespace trireme {

struct PlanCases {
  std::string file, grid, format = "text", plot;
  std::vector<std::string> listed, measured;
  TableOptions table;

  bool asked() const { return !file.empty() || !grid.empty() || !listed.empty(); }
};

void AddCaseOptions(CLI::App& plan, PlanCases& cases);

// Prints the table and writes the plot. Settings that all cases of a file share give way to what the command line says:
// given("nodes"). Exit code 1 where no case has an answer.
int RunCases(const PlanCases& cases, const CaseQuestion& base, const std::function<bool(const std::string&)>& given,
             const std::function<RunRow(const CaseQuestion&)>& answer);

}  // namespace trireme
