// Vocabulary and merges of a byte-level BPE, and the merging of one piece. Immutable once made; any thread may use it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace trireme {

struct BytePairVocabulary {
  std::vector<std::pair<std::string, std::int32_t>> tokens;  // as written: in the byte alphabet
  std::vector<std::pair<std::string, std::string>> merges;   // best first
  bool ignore_merges = false;                                // a piece that is a token is taken whole
  std::string unknown_token;                                 // for bytes that no token has; empty if none
};

class BytePairModel {
 public:
  static constexpr std::int64_t kMostTokens = 1 << 24;

  // `origin` names the file in Errors: ids out of range or given twice, merges of unknown tokens.
  BytePairModel(const BytePairVocabulary& vocabulary, const std::string& origin);

  // One more than the largest id.
  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }
  std::int64_t merges() const { return merge_count_; }
  // Empty for an id that no token has.
  std::string_view bytes(std::int32_t id) const { return bytes_[static_cast<std::size_t>(id)]; }
  // By the token's text in the byte alphabet.
  std::optional<std::int32_t> Find(std::string_view written) const;
  // Merges ids in place, by rank, leftmost first; how many are left.
  std::size_t Merge(std::int32_t* ids, std::size_t count) const;
  // Appends the ids of one piece, merged.
  void Encode(std::string_view piece, std::vector<std::int32_t>& ids) const;

 private:
  struct MergeRule {
    std::uint64_t pair = kNoPair;
    std::uint32_t rank = kNoRank;
    std::int32_t result = 0;
  };
  static constexpr std::uint64_t kNoPair = ~std::uint64_t{0};
  static constexpr std::uint32_t kNoRank = ~std::uint32_t{0};

  void AddMerges(const BytePairVocabulary& vocabulary, const std::string& origin);
  MergeRule& Slot(std::uint64_t pair);
  const MergeRule* FindMerge(std::int32_t left, std::int32_t right) const;
  std::size_t MergeShort(std::int32_t* ids, std::size_t count) const;
  std::size_t MergeLong(std::int32_t* ids, std::size_t count) const;

  std::string origin_;
  bool ignore_merges_;
  std::vector<std::string> bytes_;
  std::unordered_map<std::string, std::int32_t> by_text_;
  std::unordered_map<std::string_view, std::int32_t> by_bytes_;  // keys view bytes_; only if ignore_merges_
  std::vector<std::int32_t> byte_ids_;                           // 256; -1 where no token has the byte
  std::vector<MergeRule> table_;                                 // open addressing, power of two
  std::int64_t merge_count_ = 0;
};

}  // namespace trireme
