// `trireme bench`: runs the cases of a sweep for real, one after another, each in a process of its own. A case that is
// refused, runs out of memory, fails or takes too long is a row like the others. What is done is kept in
// FOLDER/rows.jsonl: the same command goes on after a kill and does not run it again.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "report/bench_table.h"
#include "run/sweep.h"

namespace trireme {

// The folder below FOLDER/runs of a case's run, by its key in rows.jsonl.
std::string FolderOfCase(const std::string& key);

struct BenchOptions {
  std::string folder;                                // of the results; made when it is missing
  std::string program;                               // that trains: this one
  std::function<void(const std::string&)> progress;  // a line for people, may be missing
  TableOptions table = {};
};

// One run of a case: the seconds and samples of its measured steps and what its last line says; or why there are none.
struct BenchSample {
  std::string failure;
  std::vector<double> seconds;
  std::vector<double> samples;  // that each of these steps consumed; empty: the global batch
  double predicted = 0;
  double memory = 0;
  double hardware = 0;
  double last_loss = 0;
  double mfu = 0;  // model FLOPs over the device's peak; 0: unknown
};

// Runs what FOLDER does not hold yet and returns the rows of all cases, in their order. Writes FOLDER/table.txt, .md,
// .csv and plot.svg after each case. Requires sweep.recipe to be a path; an Error when
// it cannot be read.
std::vector<BenchRow> RunBench(const Sweep& sweep, const BenchOptions& options);

// The row of a case from its repeats.
BenchRow RowOf(const Sweep& sweep, const SweepCase& one, const std::vector<BenchSample>& samples);

}  // namespace trireme
