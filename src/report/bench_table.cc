#include "report/bench_table.h"

#include <algorithm>

#include "report/against_prediction.h"

namespace trireme {

std::string BenchText(const RunTable& of) {
  RunTable table = of;
  const auto at = [&](const char* name) {
    return static_cast<std::size_t>(std::find(table.columns.begin(), table.columns.end(), name) -
                                    table.columns.begin());
  };
  const std::size_t seconds = at("sec/it");
  const std::size_t predicted = at("predicted");
  const std::size_t error = at("error %");
  table.columns[error] = "than predicted";
  for (std::vector<std::string>& row : table.rows) {
    const auto number = [&](std::size_t column) { return row[column].empty() ? 0 : std::stod(row[column]); };
    row[error] = AgainstPrediction(number(seconds), number(predicted));
    if (const std::size_t end = row[error].find(" than predicted"); end != std::string::npos) {
      row[error].erase(end);
    }
  }
  return ToText(table);
}

}  // namespace trireme
