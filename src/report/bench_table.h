// The table of a measured study: rows of planner/queries/run_table.h, which `trireme bench` measured.
#pragma once

#include "planner/queries/run_table.h"

namespace trireme {

using BenchRow = RunRow;

// For people: the percentage by which a prediction was off is said in words.
std::string BenchText(const RunTable& table);

}  // namespace trireme
