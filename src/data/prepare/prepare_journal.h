// What a preparation has finished, so that one that was killed can go on: written beside the output, replaced whole.
#pragma once

#include <optional>
#include <string>

#include "data/dataset/indexed_dataset_writer.h"
#include "data/prepare/batch_reader.h"

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
