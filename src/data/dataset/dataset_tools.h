// What can be done with indexed datasets as wholes: describe, merge, split. Each reads and writes in bounded memory.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset/token_kind.h"

namespace trireme {

struct DatasetSummary {
  std::string path;
  TokenKind kind = TokenKind::kUInt16;
  std::int64_t tokens = 0;
  std::int64_t sequences = 0;
  std::int64_t documents = 0;
  std::int64_t empty_documents = 0;
  std::int64_t shortest_document = 0;  // tokens
  std::int64_t longest_document = 0;
  bool has_modes = false;
  std::int32_t smallest_token = 0;  // over the whole .bin; 0 when it is empty
  std::int32_t largest_token = 0;
};

// Checks the index and reads every token once. If `vocabulary` > 0, a token outside it is an Error that names its
// position.
DatasetSummary InspectDataset(const std::string& path, std::int64_t vocabulary = 0);

// Where datasets are written. One that exists already is an Error unless it may be overwritten.
struct DatasetOutput {
  std::string prefix;
  bool overwrite = false;
};

// Documents of every input, in the order given, and their tokenizer. Inputs of different token kinds or tokenizers are
// an Error.
void MergeDatasets(const std::vector<std::string>& inputs, const DatasetOutput& output);

// Cuts a dataset into PREFIX-train, PREFIX-validation and PREFIX-test by whole documents in the stored order, each with
// its tokenizer; `weights` as in SourceOptions::split_weights. Parts with weight 0 are not written. Returns the tokens
// of each.
std::array<std::int64_t, 3> SplitDataset(const std::string& input, const std::string& weights,
                                         const DatasetOutput& output);

}  // namespace trireme
