#include "data/tokenizer/byte_pair_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <queue>

#include "base/error.h"
#include "base/random.h"
#include "data/tokenizer/byte_alphabet.h"

namespace trireme {
namespace {

// Above this many symbols the quadratic scan loses to the heap.
constexpr std::size_t kShortPiece = 48;

std::uint64_t PairKey(std::int32_t left, std::int32_t right) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) | static_cast<std::uint32_t>(right);
}

constexpr std::int64_t kIdsPerToken = 16;
constexpr std::int64_t kSpareIds = 4096;

}  // namespace

BytePairModel::BytePairModel(const BytePairVocabulary& vocabulary, const std::string& origin)
    : origin_(origin), ignore_merges_(vocabulary.ignore_merges) {
  Require(!vocabulary.tokens.empty(), "'{}' has an empty vocabulary", origin);
  std::int32_t largest = 0;
  for (const auto& [text, id] : vocabulary.tokens) {
    Require(id >= 0 && id < kMostTokens, "token '{}' of '{}' has id {}, which is not in [0, {})", text, origin, id,
            kMostTokens);
    largest = std::max(largest, id);
  }
  // Ids may have holes, but a small file must not ask for a large table.
  const auto most = static_cast<std::int64_t>(vocabulary.tokens.size()) * kIdsPerToken + kSpareIds;
  Require(largest < most, "'{}' has {} tokens and an id of {}; ids below {} would be taken", origin,
          vocabulary.tokens.size(), largest, most);
  bytes_.resize(static_cast<std::size_t>(largest) + 1);
  by_text_.reserve(vocabulary.tokens.size());
  for (const auto& [text, id] : vocabulary.tokens) {
    Require(!text.empty(), "token {} of '{}' is empty", id, origin);
    std::string& bytes = bytes_[static_cast<std::size_t>(id)];
    Require(bytes.empty(), "token '{}' of '{}' has id {}, which another token has", text, origin, id);
    Require(by_text_.emplace(text, id).second, "token '{}' of '{}' is there twice", text, origin);
    bytes = TextToBytes(text);
  }
  const auto unknown = by_text_.find(vocabulary.unknown_token);
  byte_ids_.assign(256, unknown == by_text_.end() ? -1 : unknown->second);
  for (int byte = 0; byte < 256; ++byte) {
    const char value = static_cast<char>(byte);
    const auto found = by_text_.find(BytesToText({&value, 1}));
    if (found != by_text_.end()) {
      byte_ids_[static_cast<std::size_t>(byte)] = found->second;
    }
  }
  if (ignore_merges_) {
    for (const auto& [text, id] : by_text_) {
      by_bytes_.emplace(bytes_[static_cast<std::size_t>(id)], id);
    }
  }
  AddMerges(vocabulary, origin);
}

void BytePairModel::AddMerges(const BytePairVocabulary& vocabulary, const std::string& origin) {
  merge_count_ = static_cast<std::int64_t>(vocabulary.merges.size());
  table_.resize(std::bit_ceil(vocabulary.merges.size() * 2 + 2));
  std::uint32_t rank = 0;
  for (const auto& merge : vocabulary.merges) {
    const std::string& left = merge.first;
    const std::string& right = merge.second;
    const auto find = [&](const std::string& text) {
      const auto found = by_text_.find(text);
      Require(found != by_text_.end(), "merge {} of '{}' ('{}' and '{}') needs the token '{}', which is not there",
              rank, origin, left, right, text);
      return found->second;
    };
    const std::uint64_t pair = PairKey(find(left), find(right));
    Slot(pair) = {pair, rank++, find(left + right)};
  }
}

BytePairModel::MergeRule& BytePairModel::Slot(std::uint64_t pair) {
  std::size_t at = Mix64(pair) & (table_.size() - 1);
  while (table_[at].pair != kNoPair && table_[at].pair != pair) {
    at = (at + 1) & (table_.size() - 1);
  }
  return table_[at];
}

const BytePairModel::MergeRule* BytePairModel::FindMerge(std::int32_t left, std::int32_t right) const {
  const std::uint64_t pair = PairKey(left, right);
  std::size_t at = Mix64(pair) & (table_.size() - 1);
  while (table_[at].pair != pair) {
    if (table_[at].pair == kNoPair) {
      return nullptr;
    }
    at = (at + 1) & (table_.size() - 1);
  }
  return &table_[at];
}

std::optional<std::int32_t> BytePairModel::Find(std::string_view written) const {
  const auto found = by_text_.find(std::string(written));
  return found == by_text_.end() ? std::nullopt : std::optional(found->second);
}

void BytePairModel::Encode(std::string_view piece, std::vector<std::int32_t>& ids) const {
  if (ignore_merges_) {
    const auto found = by_bytes_.find(piece);
    if (found != by_bytes_.end()) {
      ids.push_back(found->second);
      return;
    }
  }
  const std::size_t first = ids.size();
  ids.resize(first + piece.size());
  for (std::size_t i = 0; i < piece.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(piece[i]);
    Require(byte_ids_[byte] >= 0, "'{}' has no token for the byte {:#04x} and no unknown token", origin_, byte);
    ids[first + i] = byte_ids_[byte];
  }
  ids.resize(first + Merge(ids.data() + first, piece.size()));
}

std::size_t BytePairModel::Merge(std::int32_t* ids, std::size_t count) const {
  return count <= kShortPiece ? MergeShort(ids, count) : MergeLong(ids, count);
}

std::size_t BytePairModel::MergeShort(std::int32_t* ids, std::size_t count) const {
  std::array<std::uint32_t, kShortPiece> ranks;  // of the pair (i, i + 1)
  std::array<std::int32_t, kShortPiece> results;
  const auto look = [&](std::size_t i) {
    const MergeRule* merge = FindMerge(ids[i], ids[i + 1]);
    ranks[i] = merge == nullptr ? kNoRank : merge->rank;
    results[i] = merge == nullptr ? 0 : merge->result;
  };
  for (std::size_t i = 0; i + 1 < count; ++i) {
    look(i);
  }
  while (count > 1) {
    const auto best =
        static_cast<std::size_t>(std::min_element(ranks.begin(), ranks.begin() + (count - 1)) - ranks.begin());
    if (ranks[best] == kNoRank) {
      break;
    }
    ids[best] = results[best];
    std::copy(ids + best + 2, ids + count, ids + best + 1);
    std::copy(ranks.begin() + best + 1, ranks.begin() + (count - 1), ranks.begin() + best);
    std::copy(results.begin() + best + 1, results.begin() + (count - 1), results.begin() + best);
    --count;
    if (best + 1 < count) {
      look(best);
    }
    if (best > 0) {
      look(best - 1);
    }
  }
  return count;
}

std::size_t BytePairModel::MergeLong(std::int32_t* ids, std::size_t count) const {
  struct Candidate {
    std::uint32_t rank;
    std::size_t at;
    std::int32_t left;  // the symbols when it was found: a stale candidate no longer matches
    std::int32_t right;
    std::int32_t result;
    bool operator<(const Candidate& other) const { return std::pair(rank, at) > std::pair(other.rank, other.at); }
  };
  constexpr std::int32_t kGone = -1;
  std::vector<std::size_t> next(count);
  std::vector<std::size_t> previous(count);
  std::priority_queue<Candidate> queue;
  const auto push = [&](std::size_t at) {
    if (next[at] < count) {
      const std::int32_t right = ids[next[at]];
      if (const MergeRule* merge = FindMerge(ids[at], right)) {
        queue.push({merge->rank, at, ids[at], right, merge->result});
      }
    }
  };
  for (std::size_t i = 0; i < count; ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;  // wraps for the first, which has none
  }
  for (std::size_t i = 0; i < count; ++i) {
    push(i);
  }
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    if (ids[best.at] != best.left || next[best.at] >= count || ids[next[best.at]] != best.right) {
      continue;
    }
    const std::size_t gone = next[best.at];
    ids[best.at] = best.result;
    ids[gone] = kGone;
    next[best.at] = next[gone];
    if (next[gone] < count) {
      previous[next[gone]] = best.at;
    }
    push(best.at);
    if (previous[best.at] < count) {
      push(previous[best.at]);
    }
  }
  return static_cast<std::size_t>(std::remove(ids, ids + count, kGone) - ids);
}

}  // namespace trireme
