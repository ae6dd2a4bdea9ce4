// What a run says at its start and at its end, and of its memory: labelled lines of at most 80 columns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/accounting.h"
#include "run/run_config.h"
#include "run/run_schedule.h"

namespace trireme {

// "label     text", broken after commas, semicolons and colons where that suffices, else at spaces; what does not fit
// goes on below the text. A word that is longer than a line stays whole.
std::string Labelled(const std::string& label, const std::string& text);

struct RunStart {
  const RunConfig& config;
  std::string device;                 // its description
  int threads = 0;                    // of a rank on the host; 0: not on the host
  std::int64_t samples_of_epoch = 0;  // of the training data; 0: not known, or without end
  RunPosition from;                   // 0 steps: the run begins
  std::int64_t steps = 0;             // of the whole run
  std::int64_t samples = 0;           // likewise
  std::string folder;                 // empty: nothing is written
};
// Model, layout, device, data, folder.
std::string StartLines(const RunStart& start);

// What ranks hold, by rank: one line for all that hold the same.
std::string MemoryLines(const std::vector<MemoryUse>& by_rank);

struct RunEnding {
  std::string folder;        // empty: nothing was written
  std::int64_t step = 0;     // the last one
  double loss = 0;           // of it; NaN: not known
  bool stopped = false;      // before its end, on request
  bool saved = true;         // the last checkpoint is there
  bool writes_text = false;  // its data has a tokenizer, so that `generate` can be the next command
};
// What was trained and saved, and the next command.
std::string EndLines(const RunEnding& ending);

}  // namespace trireme
