// Learns a byte-level BPE from text: counts pieces, then merges the most frequent pair (of equals the one with the
// smaller ids) until the vocabulary is full. The order of ids is Hugging Face's: special tokens, bytes, merges.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/tokenizer/bpe_tokenizer.h"

namespace trireme {

struct BpeTrainingOptions {
  std::int64_t vocabulary = 32768;  // tokens in all: special ones, 256 bytes, merges
  SplitPattern pattern = SplitPattern::kGpt2;
  std::vector<std::string> special_tokens = {"<|endoftext|>"};
  std::int64_t least_frequency = 2;  // of a pair that is merged
};

class BpeTrainer {
 public:
  explicit BpeTrainer(const BpeTrainingOptions& options);

  // Counts the pieces of `text`. Memory grows with the number of different pieces.
  void Add(std::string_view text);
  std::int64_t pieces() const { return static_cast<std::int64_t>(counts_.size()); }
  // `progress` hears the number of merges made and wanted, now and then. Fewer merges are made if the text has no more.
  BpeDescription Train(const std::function<void(std::int64_t, std::int64_t)>& progress = {}) const;

 private:
  BpeTrainingOptions options_;
  const UnicodeClasses& classes_ = UnicodeClasses::Get();
  std::unordered_map<std::string, std::int64_t> counts_;
};

struct TrainTokenizerOptions {
  std::vector<std::string> inputs;  // files and globs, as for PrepareDataset()
  std::string output;               // the tokenizer.json to write
  bool overwrite = false;           // false: an Error where there is one
  std::string format = "auto";
  std::string json_field = "text";
  std::int64_t most_bytes = std::int64_t{1} << 30;  // of text to learn from, the first of the inputs
  BpeTrainingOptions training;
};

// `progress` hears a stage ("reading", "merging"), the amount done and the whole. Returns the size of the vocabulary.
std::int64_t TrainTokenizer(const TrainTokenizerOptions& options,
                            const std::function<void(const char*, std::int64_t, std::int64_t)>& progress = {});

}  // namespace trireme
