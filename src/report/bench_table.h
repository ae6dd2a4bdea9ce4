// The table of a measured study: a row a case, with the columns that published tables of training runs have, as text,
// Markdown and CSV. Every figure of TFLOPs names its formula (cost/formulas.h).
#pragma once

#include <string>
#include <vector>

#include "run/run_config.h"

namespace trireme {

// One case as it was measured; statistics are over the measured steps of all repeats.
struct BenchRow {
  std::string label;
  std::string failure;  // empty: it ran; "out of memory: …", "refused: …", "failed: …", "timed out after 600 s"
  RunConfig config;
  int nodes = 1;
  std::string remark;    // what a reader of its figures must know
  double seconds = 0;    // median of a step
  double samples = 0;    // consumed in these seconds: a ramp's batches are not the config's
  double spread = 0;     // half the distance of its quartiles, as a share of the median
  double predicted = 0;  // by the planner; 0: unknown
  double memory = 0;     // bytes of the fullest rank
  double hardware = 0;   // TFLOPs a device executed, recomputation included
  double last_loss = 0;
};

struct BenchTable {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

// `scaling %` is what the model needs of FLOPs, per second and device, over that of the first row that ran: of equal
// models a ratio of tokens.
BenchTable TableOf(const std::vector<BenchRow>& rows);

std::string ToText(const BenchTable& table);
std::string ToMarkdown(const BenchTable& table);
std::string ToCsv(const BenchTable& table);

}  // namespace trireme
