// Writer of Megatron's indexed datasets, byte for byte as Megatron-LM writes them. Tokens, lengths and boundaries go to
// PREFIX.*.partial files as they come (memory does not grow with the dataset); Finish() makes PREFIX.bin and
// PREFIX.idx, the index last. A writer may be stopped at a Checkpoint() and continued by another process.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/dataset/token_kind.h"
#include "data/files/output_file.h"

namespace trireme {

// How much of a dataset has been written.
struct DatasetExtent {
  std::int64_t tokens = 0;
  std::int64_t sequences = 0;
  std::int64_t documents = 0;
  bool operator==(const DatasetExtent&) const = default;
};

class IndexedDatasetWriter {
 public:
  // Starts afresh, or continues after `state`, which an earlier writer of the same prefix and kind has returned from
  // Checkpoint(); partial files shorter than that are an Error.
  IndexedDatasetWriter(const std::string& prefix, TokenKind kind, const DatasetExtent& state = {});

  // Appends one sequence to the current document.
  void AddSequence(std::span<const std::int32_t> tokens);
  void EndDocument();
  const DatasetExtent& state() const { return state_; }
  // Everything so far is on disk when this returns, and `state()` can be continued from.
  DatasetExtent Checkpoint();
  // Writes the index and moves both files to their final names. The current document must have been ended.
  void Finish();
  // What a writer of this prefix that did not finish has left.
  static void RemovePartialFiles(const std::string& prefix);

 private:
  std::string prefix_;
  TokenKind kind_;
  DatasetExtent state_;
  OutputFile bin_;
  OutputFile lengths_;
  OutputFile boundaries_;
  std::vector<std::byte> scratch_;
};

}  // namespace trireme
