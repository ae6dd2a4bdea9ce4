// Text to indexed datasets: reads files, tokenizes on all cores in bounded memory, writes in the order of the inputs.
// The output does not depend on the number of threads or on interruptions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/prepare/batch_encoder.h"
#include "data/prepare/batch_reader.h"
#include "data/tokenizer/tokenizer.h"

namespace trireme {

struct PrepareOptions {
  std::vector<std::string> inputs;  // files and globs; plain, gzip or Zstandard
  std::string output;     // prefix of the .bin and .idx; the tokenizer is kept beside them in PREFIX.tokenizer
  std::string tokenizer;  // as LoadTokenizer() takes it
  TextFormat format = TextFormat::kAuto;
  std::string json_field;          // empty: "text", or "messages" of conversations
  bool append_end_of_text = true;  // after each document, if the tokenizer has such a token
  // Special tokens written in the text stay text: a document cannot end another. Those of a chat template always count.
  bool parse_special = false;
  bool skip_damaged = false;                              // leave out and count JSON lines that are otherwise an Error
  int threads = 0;                                        // 0: one a core
  bool overwrite = false;                                 // replace a finished output, drop an unfinished one
  std::int64_t checkpoint_bytes = std::int64_t{1} << 28;  // of text between two points to resume from
};

struct PrepareProgress {
  std::int64_t stored_bytes = 0;  // of the input files read so far
  std::int64_t total_bytes = 0;
  std::int64_t files = 0;  // finished
  std::int64_t total_files = 0;
  std::int64_t documents = 0;
  std::int64_t tokens = 0;
};

struct PrepareSummary {
  std::int64_t text_bytes = 0;  // unpacked, in this run
  std::int64_t documents = 0;
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;
  std::int64_t vocabulary = 0;
  DamagedLines damaged;  // in this run
  bool resumed = false;
  double seconds = 0;  // of this run
};

// Called on the calling thread after each batch (about a megabyte); may throw to stop, which leaves a resumable state.
using PrepareCallback = std::function<void(const PrepareProgress&)>;

// Continues an interrupted preparation of the same inputs with the same options by itself.
PrepareSummary PrepareDataset(const PrepareOptions& options, const PrepareCallback& progress = {});

}  // namespace trireme
