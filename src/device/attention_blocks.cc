#include "device/attention_blocks.h"

#include <algorithm>

namespace trireme {
namespace {

enum class Sight : std::uint8_t { kNothing, kCausal, kEverything };

// Chunks of queries against chunks of keys, the latter in the order of their rows.
class ChunkTable {
 public:
  explicit ChunkTable(const AttentionArgs& args)
      : length_(args.chunk()), queries_(args.query_chunks), keys_(args.key_chunks.begin(), args.key_chunks.end()) {
    std::sort(keys_.begin(), keys_.end(), [](const KeyChunk& a, const KeyChunk& b) { return a.row < b.row; });
    open_.assign(queries_.size() * keys_.size(), true);
  }

  // Every distance between chunks is none, or a chunk at least.
  bool Fits() const {
    return std::all_of(queries_.begin(), queries_.end(), [&](std::int64_t query) {
      return std::all_of(keys_.begin(), keys_.end(), [&](const KeyChunk& key) {
        const std::int64_t distance = query - key.position;
        return distance == 0 || distance >= length_ || distance <= -length_;
      });
    });
  }

  std::vector<AttentionBlock> Take() {
    std::vector<AttentionBlock> blocks;
    const std::size_t cells = open_.size();
    for (const Sight kind : {Sight::kCausal, Sight::kEverything}) {
      for (std::size_t cell = 0; cell < cells; ++cell) {
        const std::size_t query = cell / keys_.size();
        const std::size_t key = cell % keys_.size();
        if (Open(query, key) && SightOf(query, key) == kind) {
          blocks.push_back(kind == Sight::kCausal ? TakeSquare(query, key) : TakeRectangle(query, key));
        }
      }
    }
    return blocks;
  }

 private:
  bool Open(std::size_t query, std::size_t key) const { return open_[query * keys_.size() + key]; }
  Sight SightOf(std::size_t query, std::size_t key) const {
    const std::int64_t distance = queries_[query] - keys_[key].position;
    return distance == 0 ? Sight::kCausal : distance > 0 ? Sight::kEverything : Sight::kNothing;
  }
  // Whether key chunk `key` lies right behind the one before it.
  bool Follows(std::size_t key) const { return key < keys_.size() && keys_[key].row == keys_[key - 1].row + length_; }
  AttentionBlock Close(std::size_t query, std::size_t queries, std::size_t key, std::size_t keys, bool causal) {
    for (std::size_t i = query; i < query + queries; ++i) {
      for (std::size_t j = key; j < key + keys; ++j) {
        open_[i * keys_.size() + j] = false;
      }
    }
    return {.query = static_cast<std::int64_t>(query) * length_,
            .queries = static_cast<std::int64_t>(queries) * length_,
            .key = keys_[key].row,
            .keys = static_cast<std::int64_t>(keys) * length_,
            .causal = causal};
  }

  AttentionBlock TakeSquare(std::size_t query, std::size_t key) {
    std::size_t extent = 1;
    while (query + extent < queries_.size() && Follows(key + extent) &&
           SightOf(query + extent, key + extent) == Sight::kCausal &&
           queries_[query + extent] > queries_[query + extent - 1]) {
      ++extent;
    }
    return Close(query, extent, key, extent, true);
  }

  AttentionBlock TakeRectangle(std::size_t query, std::size_t key) {
    const auto whole = [&](std::size_t i, std::size_t j) { return Open(i, j) && SightOf(i, j) == Sight::kEverything; };
    std::size_t keys = 1;
    while (Follows(key + keys) && whole(query, key + keys)) {
      ++keys;
    }
    std::size_t queries = 1;
    const auto all = [&](std::size_t i) {
      for (std::size_t j = key; j < key + keys; ++j) {
        if (!whole(i, j)) {
          return false;
        }
      }
      return true;
    };
    while (query + queries < queries_.size() && all(query + queries)) {
      ++queries;
    }
    return Close(query, queries, key, keys, false);
  }

  std::int64_t length_;
  std::span<const std::int64_t> queries_;
  std::vector<KeyChunk> keys_;
  std::vector<bool> open_;
};

bool ShareAKey(const AttentionBlock& a, const AttentionBlock& b) {
  return a.key < b.key + b.keys && b.key < a.key + a.keys;
}

}  // namespace

std::vector<AttentionBlock> AttentionBlocks(const AttentionArgs& args) {
  ChunkTable table(args);
  if (!table.Fits()) {
    return {};
  }
  std::vector<AttentionBlock> blocks = table.Take();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (ShareAKey(blocks[i], blocks[j])) {
        return {};
      }
    }
  }
  return blocks;
}

}  // namespace trireme
