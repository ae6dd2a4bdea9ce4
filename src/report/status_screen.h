// A run on a few lines of a terminal: progress, time left, loss with a sparkline, speed, memory, predicted beside
// measured, the last events. `trireme status` prints it from a run's folder; `train` keeps it up to date on a terminal.
#pragma once

#include <string>
#include <vector>

#include "report/run_record.h"

namespace trireme {

struct ScreenFacts {
  std::string title;   // "gpt2, 124.4 M parameters, tensor 2 x pipeline 2 x data 2"
  std::string layout;  // "tp2 pp2 dp2 zero1 1f1b mbs1, batch 16, bf16"; empty: not said
  std::string state;   // "running", "finished", "failed: …"; empty: not said
  std::int64_t step = 0;
  std::int64_t total_steps = 0;     // 0: unknown
  std::vector<double> losses;       // oldest first
  double validation_loss = 0;       // 0: none
  double seconds = 0;               // of a step; 0: unknown, as below
  double predicted_seconds = 0;     //
  double tokens_per_second = 0;     //
  double share_of_peak = 0;         //
  double memory_bytes = 0;          //
  std::vector<std::string> events;  // oldest first; the last ones are shown
};

struct ScreenOptions {
  int width = 100;      // lines are cut to it
  bool colour = false;  // escape sequences of a terminal
  int events = 3;
};

// Lines that end in '\n'.
std::string StatusScreen(const ScreenFacts& facts, const ScreenOptions& options);

// One character a value of `width` equal stretches, by their means; not finite values are left out.
std::string Sparkline(const std::vector<double>& values, int width);
// "3:12:05", "2.5 days".
std::string DurationText(double seconds);

ScreenFacts FactsOf(const RunRecord& run);
// One JSON object of a run: name, path, state, step, total_steps, loss, seconds and the like; null where unknown.
std::string StatusJson(const RunRecord& run);
// What the ledgers of a run's folder say of it; empty without ledgers.
std::string StateOfRun(const std::string& folder);

// Columns of the terminal that standard output is; 0: it is none.
int TerminalWidth();

}  // namespace trireme
