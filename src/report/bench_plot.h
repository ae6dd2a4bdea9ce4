// A measured study as a picture: seconds per step of each case with what was predicted, and FLOP/s, as SVG.
#pragma once

#include <string>
#include <vector>

#include "report/bench_table.h"

namespace trireme {

// Cases that did not run are left out of the lines. An empty picture says so.
std::string PlotOf(const std::vector<BenchRow>& rows, const std::string& title);

}  // namespace trireme
