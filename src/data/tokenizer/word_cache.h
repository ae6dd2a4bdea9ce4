// Ids of the pieces seen lately, one cache line each: most pieces of any text are a few thousand words. Direct-mapped,
// fixed size, not thread-safe: one a thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace trireme {

class WordCache {
 public:
  static constexpr std::size_t kLongestWord = 24;  // bytes
  static constexpr std::size_t kMostIds = 9;

  struct alignas(64) Entry {
    std::array<std::uint64_t, 3> word{};
    std::uint8_t length = 0;  // 0: free, pieces are never empty
    std::uint8_t count = 0;
    std::array<std::int32_t, kMostIds> ids;
  };

  WordCache() : entries_(std::size_t{1} << kBits) {}

  // The entry that `piece` (1 to kLongestWord bytes) has or would have; `readable` bytes may be read from its start.
  // `hit` says which.
  Entry& Find(std::string_view piece, std::size_t readable, bool& hit) {
    std::array<std::uint64_t, 3> word{};
    if (readable >= kLongestWord) {
      std::memcpy(word.data(), piece.data(), kLongestWord);
      // Clears what lies behind the piece; a shift by a whole word would be undefined.
      for (std::size_t i = 0; i < 3; ++i) {
        const std::size_t valid = piece.size() > i * 8 ? piece.size() - i * 8 : 0;
        word[i] = valid >= 8 ? word[i] : valid == 0 ? 0 : word[i] & (~std::uint64_t{0} >> (64 - valid * 8));
      }
    } else {
      std::memcpy(word.data(), piece.data(), piece.size());
    }
    Entry& entry = entries_[Hash(word)];
    hit = entry.length == piece.size() && entry.word == word;
    if (!hit) {
      pending_ = word;
    }
    return entry;
  }

  // Stores the ids of the piece that the last Find() missed.
  void Store(Entry& entry, std::size_t length, std::span<const std::int32_t> ids) {
    if (ids.size() <= kMostIds) {
      entry.word = pending_;
      entry.length = static_cast<std::uint8_t>(length);
      entry.count = static_cast<std::uint8_t>(ids.size());
      std::copy(ids.begin(), ids.end(), entry.ids.begin());
    }
  }

 private:
  static constexpr int kBits = 16;

  static std::size_t Hash(const std::array<std::uint64_t, 3>& word) {
    std::uint64_t mixed = (word[0] ^ 0x9e3779b97f4a7c15ULL) * 0xbf58476d1ce4e5b9ULL;
    mixed = (mixed ^ (mixed >> 29) ^ word[1]) * 0x94d049bb133111ebULL;
    mixed = (mixed ^ (mixed >> 31) ^ word[2]) * 0xbf58476d1ce4e5b9ULL;
    return static_cast<std::size_t>(mixed >> (64 - kBits));
  }

  std::vector<Entry> entries_;
  std::array<std::uint64_t, 3> pending_{};
};

}  // namespace trireme
