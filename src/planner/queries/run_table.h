// The table of a study: a row a run, measured or predicted, with the columns that published tables of training runs
// have, as text, Markdown, CSV and JSON. `trireme bench` prints measured runs in it and `trireme plan` predicted ones,
// so that both can stand side by side. Every figure of TFLOPs names its formula (cost/formulas.h).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "run/run_config.h"

namespace trireme {

// What a run took. Of a predicted run `seconds` is the prediction, and what only a measurement has stays unset.
struct RunRow {
  std::string label;
  std::string failure;  // empty: it ran; "out of memory: …", "refused: …", "failed: …", "timed out after 600 s"
  RunConfig config;
  int nodes = 1;
  double seconds = 0;         // of a step
  double samples = 0;         // of a step; 0: the global batch
  double spread = -1;         // half the distance of its quartiles, as a share of the median; below 0: not measured
  double predicted = 0;       // by the planner, of a measured run; 0: unknown
  double memory = 0;          // bytes of the fullest rank
  double hardware = 0;        // TFLOPs a device executed, recomputation included
  double mfu = 0;             // model FLOPs over the device's peak; 0: unknown
  double fit = -1;            // probability that it fits the device; below 0: unknown
  bool shares_cores = false;  // its ranks had fewer cores than they are
  bool has_model = true;      // false: a search for one found none
  bool has_layout = true;     // false: only the number of ranks of config.layout is known
  std::string remark;         // what else there is to say about it
};

struct TableOptions {
  double tokens = 100e9;    // of the training that days, device-hours and cost are of
  double price = 0;         // of a device-hour; 0: no cost
  std::string relative_to;  // the label or the number (from 1) of the row that "scaling %" refers to; empty: the first
};

struct RunTable {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

// `scaling %` is what the model needs of FLOPs, per second and device, over that of the row it refers to: of equal
// models a ratio of tokens. An Error where options.relative_to names no row that ran.
RunTable TableOf(const std::vector<RunRow>& rows, const TableOptions& options = {});

// For a terminal: lines of at most `width` columns. Empty columns are left out, then the least important ones; labels
// and remarks that are too long follow below.
std::string ToText(const RunTable& table, std::size_t width = 120);
std::string ToMarkdown(const RunTable& table);
std::string ToCsv(const RunTable& table);
// A list of objects by column; numbers as numbers, null where there is none.
nlohmann::ordered_json ToJsonValue(const RunTable& table);

}  // namespace trireme
