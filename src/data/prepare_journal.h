// What a preparation has finished, so that one that was killed can go on: written beside the output, replaced whole.
#pragma once

#include <optional>
#include <string>

#include "data/batch_reader.h"
#include "data/indexed_dataset_writer.h"

namespace trireme {

struct PrepareJournal {
  std::string fingerprint;  // of the inputs, the tokenizer and the options
  ReadPosition position;
  DatasetExtent extent;
};

// Nothing if there is no journal; a damaged one is an Error that says how to start anew.
std::optional<PrepareJournal> ReadJournal(const std::string& path);
void WriteJournal(const std::string& path, const PrepareJournal& journal);

}  // namespace trireme
