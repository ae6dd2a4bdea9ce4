#include "data/tokenizer/bpe_trainer.h"

#include <algorithm>
#include <filesystem>
#include <queue>

#include "base/durable_file.h"
#include "base/error.h"
#include "data/prepare/batch_encoder.h"
#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/tokenizer_files.h"

namespace trireme {
namespace {

using Pair = std::pair<std::int32_t, std::int32_t>;

struct PairHash {
  std::size_t operator()(const Pair& pair) const {
    const auto key = (static_cast<std::uint64_t>(pair.first) << 32) | static_cast<std::uint32_t>(pair.second);
    return static_cast<std::size_t>(key * 0x9e3779b97f4a7c15ULL >> 13);
  }
};

struct Word {
  std::vector<std::int32_t> symbols;
  std::int64_t count = 0;
};

struct PairUse {
  std::int64_t count = 0;
  std::vector<std::uint32_t> words;  // that have or had the pair, some twice
};

// The words under merging, with a count of every pair that is kept exact.
class MergeState {
 public:
  explicit MergeState(std::vector<Word> words) : words_(std::move(words)) {
    for (std::uint32_t i = 0; i < words_.size(); ++i) {
      Count(i, +1);
    }
    for (const auto& [pair, use] : uses_) {
      queue_.push({use.count, pair});
    }
  }

  // The most frequent pair and its count; counts in the queue may be stale, so they are looked up.
  std::pair<std::int64_t, Pair> Best() {
    while (!queue_.empty()) {
      const Entry top = queue_.top();
      queue_.pop();
      const std::int64_t count = uses_[top.pair].count;
      if (count == top.count) {
        return {count, top.pair};
      }
      if (count > 0) {
        queue_.push({count, top.pair});
      }
    }
    return {0, {}};
  }

  void Merge(const Pair& pair, std::int32_t result) {
    touched_.clear();
    const std::vector<std::uint32_t> words = std::move(uses_[pair].words);
    for (const std::uint32_t index : words) {
      std::vector<std::int32_t>& symbols = words_[index].symbols;
      const auto found = std::adjacent_find(symbols.begin(), symbols.end(), [&](std::int32_t a, std::int32_t b) {
        return a == pair.first && b == pair.second;
      });
      if (found == symbols.end()) {
        continue;
      }
      Count(index, -1);
      Replace(symbols, pair, result);
      Count(index, +1);
    }
    uses_.erase(pair);
    std::sort(touched_.begin(), touched_.end());
    touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
    for (const Pair& changed : touched_) {
      const auto use = uses_.find(changed);
      if (use != uses_.end() && use->second.count > 0 && (changed.first == result || changed.second == result)) {
        queue_.push({use->second.count, changed});
      }
    }
  }

 private:
  struct Entry {
    std::int64_t count;
    Pair pair;
    bool operator<(const Entry& other) const { return count != other.count ? count < other.count : pair > other.pair; }
  };

  static void Replace(std::vector<std::int32_t>& symbols, const Pair& pair, std::int32_t result) {
    std::size_t to = 0;
    for (std::size_t from = 0; from < symbols.size(); ++to) {
      if (from + 1 < symbols.size() && symbols[from] == pair.first && symbols[from + 1] == pair.second) {
        symbols[to] = result;
        from += 2;
      } else {
        symbols[to] = symbols[from++];
      }
    }
    symbols.resize(to);
  }

  void Count(std::uint32_t index, int sign) {
    const Word& word = words_[index];
    for (std::size_t i = 0; i + 1 < word.symbols.size(); ++i) {
      const Pair pair{word.symbols[i], word.symbols[i + 1]};
      PairUse& use = uses_[pair];
      use.count += sign * word.count;
      if (sign > 0) {
        if (use.words.empty() || use.words.back() != index) {
          use.words.push_back(index);
        }
        touched_.push_back(pair);
      }
    }
  }

  std::vector<Word> words_;
  std::unordered_map<Pair, PairUse, PairHash> uses_;
  std::priority_queue<Entry> queue_;
  std::vector<Pair> touched_;
};

// Appends a token for each byte, in the order of their characters; returns the ids by byte.
std::vector<std::int32_t> AddBytes(std::vector<std::pair<std::string, std::int32_t>>& tokens) {
  std::vector<std::pair<char32_t, int>> alphabet;
  for (int byte = 0; byte < 256; ++byte) {
    alphabet.emplace_back(ByteCharacters()[static_cast<std::size_t>(byte)], byte);
  }
  std::sort(alphabet.begin(), alphabet.end());
  std::vector<std::int32_t> ids(256);
  for (const auto& [character, byte] : alphabet) {
    const auto id = static_cast<std::int32_t>(tokens.size());
    ids[static_cast<std::size_t>(byte)] = id;
    const char value = static_cast<char>(byte);
    tokens.emplace_back(BytesToText({&value, 1}), id);
  }
  return ids;
}

std::vector<Word> MakeWords(const std::unordered_map<std::string, std::int64_t>& counts,
                            const std::vector<std::int32_t>& byte_ids) {
  std::vector<Word> words;
  words.reserve(counts.size());
  for (const auto& [piece, count] : counts) {
    Word word{.count = count};
    for (const char byte : piece) {
      word.symbols.push_back(byte_ids[static_cast<std::uint8_t>(byte)]);
    }
    words.push_back(std::move(word));
  }
  return words;
}

}  // namespace

BpeTrainer::BpeTrainer(const BpeTrainingOptions& options) : options_(options) {
  const auto least = static_cast<std::int64_t>(options.special_tokens.size()) + 256;
  Require(options.vocabulary >= least && options.vocabulary <= BytePairModel::kMostTokens,
          "a vocabulary of {} is not between {} (256 bytes and {} special tokens) and {}", options.vocabulary, least,
          options.special_tokens.size(), BytePairModel::kMostTokens);
}

void BpeTrainer::Add(std::string_view text) {
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    const char* const next = PieceEnd(options_.pattern, classes_, at, end);
    ++counts_[std::string(at, next)];
    at = next;
  }
}

BpeDescription BpeTrainer::Train(const std::function<void(std::int64_t, std::int64_t)>& progress) const {
  BpeDescription description{.origin = "trained", .pattern = options_.pattern};
  auto& tokens = description.vocabulary.tokens;
  for (const std::string& special : options_.special_tokens) {
    const auto id = static_cast<std::int32_t>(tokens.size());
    description.added_tokens.push_back({.id = id, .content = special, .special = true});
    tokens.emplace_back(special, id);
  }
  MergeState state(MakeWords(counts_, AddBytes(tokens)));
  const auto wanted = options_.vocabulary - static_cast<std::int64_t>(tokens.size());
  std::unordered_map<std::string, std::int32_t> known(tokens.begin(), tokens.end());
  for (std::int64_t made = 0; static_cast<std::int64_t>(tokens.size()) < options_.vocabulary; ++made) {
    const auto [count, pair] = state.Best();
    if (count < std::max<std::int64_t>(1, options_.least_frequency)) {
      break;
    }
    const std::string left = tokens[static_cast<std::size_t>(pair.first)].first;
    const std::string right = tokens[static_cast<std::size_t>(pair.second)].first;
    // Two ways to one token ("a" + "bc", "ab" + "c") share its id.
    const auto [place, added] = known.emplace(left + right, static_cast<std::int32_t>(tokens.size()));
    if (added) {
      tokens.emplace_back(left + right, place->second);
    }
    description.vocabulary.merges.emplace_back(left, right);
    state.Merge(pair, place->second);
    if (progress && made % 256 == 0) {
      progress(made, wanted);
    }
  }
  return description;
}

std::int64_t TrainTokenizer(const TrainTokenizerOptions& options,
                            const std::function<void(const char*, std::int64_t, std::int64_t)>& progress) {
  Require(options.overwrite || !std::filesystem::exists(options.output),
          "'{}' exists: choose another --output, or replace it with --overwrite", options.output);
  BpeTrainer trainer(options.training);
  const auto paths = ExpandPatterns(options.inputs);
  BatchReader reader(paths, ParseTextFormat(options.format));
  std::int64_t bytes = 0;
  while (bytes < options.most_bytes) {
    const auto batch = reader.Next();
    if (!batch.has_value()) {
      break;
    }
    ForEachText(*batch, paths[static_cast<std::size_t>(batch->begin.file)], options.json_field,
                [&](std::string_view text) { trainer.Add(text); });
    bytes += static_cast<std::int64_t>(batch->text.size());
    if (progress) {
      progress("reading", bytes, options.most_bytes);
    }
  }
  Require(trainer.pieces() > 0, "the {} input files have no text to learn from", paths.size());
  const BpeDescription description = trainer.Train([&](std::int64_t made, std::int64_t wanted) {
    if (progress) {
      progress("merging", made, wanted);
    }
  });
  ReplaceFile(options.output, WriteTokenizerJson(description));
  return static_cast<std::int64_t>(description.vocabulary.tokens.size());
}

}  // namespace trireme
