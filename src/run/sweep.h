// A sweep: settings of a recipe to be run one after another and compared (`trireme bench`). TOML:
//
//   about = "what it shows"          steps = 8       # measured, of each run
//   recipe = "quickstart"            warmup = 3      # steps before them
//   repeats = 1                      timeout = 600   # seconds of one run
//   launcher = "mpirun -n {ranks}"   devices_per_node = 8
//   [set]                            # for every case
//   "data.source" = "synthetic"
//   [grid]                           # every combination of these
//   "layout.tensor" = [1, 2]
//   [[case]]                         # or listed ones
//   "layout.tensor" = 4
#pragma once

#include <string>
#include <vector>

namespace trireme {

struct SweepCase {
  std::string label;                   // "layout.tensor=2 layout.data=1": what tells it from the others
  std::vector<std::string> overrides;  // as --set takes them, those of [set] included
};

struct Sweep {
  std::string name;  // of the file
  std::string about;
  std::string recipe;
  int warmup = 3;
  int steps = 8;
  int repeats = 1;
  double timeout = 600;
  std::string launcher;      // before the program's own command line; empty: ranks are threads
  int devices_per_node = 0;  // 0: all ranks are on one node
  std::vector<SweepCase> cases;
};

// An Error names the file and what is wrong with it.
Sweep LoadSweep(const std::string& path);
Sweep ParseSweep(const std::string& text, const std::string& origin);

}  // namespace trireme
