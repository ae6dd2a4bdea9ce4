// Blocks hold exactly the pairs of query and key that chunks see, in calls as large as their rows allow.
#include "device/attention_blocks.h"

#include <gtest/gtest.h>

#include <map>

namespace trireme {
namespace {

constexpr std::int64_t kLength = 3;

// A zig-zag rank's queries over keys of ranks [first, last), `batch` sequences in rows rank by rank.
struct Zigzag {
  std::int64_t ranks;
  std::int64_t rank;
  std::int64_t batch = 1;
  std::vector<std::int64_t> queries = {};
  std::vector<KeyChunk> keys = {};

  AttentionArgs Over(std::int64_t first, std::int64_t last) {
    queries = {rank * kLength, (2 * ranks - 1 - rank) * kLength};
    keys.clear();
    for (std::int64_t chunk = 0; chunk < 2 * ranks; ++chunk) {
      const bool early = chunk < ranks;
      const std::int64_t owner = early ? chunk : 2 * ranks - 1 - chunk;
      if (owner >= first && owner < last) {
        keys.push_back(
            {.position = chunk * kLength, .row = (owner - first) * batch * 2 * kLength + (early ? 0 : kLength)});
      }
    }
    AttentionArgs args{.batch = batch, .sequence = 2 * kLength};
    args.query_chunks = queries;
    args.key_chunks = keys;
    args.kv = {this, DType::kFloat32, {1, 1}};
    return args;
  }
};

// How often each (query row, key row) is in a block.
std::map<std::pair<std::int64_t, std::int64_t>, int> PairsOf(const std::vector<AttentionBlock>& blocks) {
  std::map<std::pair<std::int64_t, std::int64_t>, int> pairs;
  for (const AttentionBlock& block : blocks) {
    for (std::int64_t i = 0; i < block.queries; ++i) {
      for (std::int64_t j = 0; j < (block.causal ? i + 1 : block.keys); ++j) {
        ++pairs[{block.query + i, block.key + j}];
      }
    }
  }
  return pairs;
}

void ExpectExactly(const AttentionArgs& args, const std::vector<AttentionBlock>& blocks) {
  std::map<std::pair<std::int64_t, std::int64_t>, int> expected;
  for (std::int64_t query = 0; query < args.sequence; ++query) {
    for (const KeyChunk& chunk : args.key_chunks) {
      for (std::int64_t i = 0; i < args.chunk() && chunk.position + i <= args.Position(query); ++i) {
        expected[{query, chunk.row + i}] = 1;
      }
    }
  }
  EXPECT_EQ(PairsOf(blocks), expected);
}

TEST(AttentionBlocks, HoldEveryVisiblePairOnce) {
  for (const std::int64_t ranks : {1, 2, 3, 8}) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      for (const std::int64_t batch : {1, 2}) {
        SCOPED_TRACE(testing::Message() << rank << " of " << ranks << ", batch " << batch);
        Zigzag zigzag{ranks, rank, batch};
        const AttentionArgs gathered = zigzag.Over(0, ranks);
        ExpectExactly(gathered, AttentionBlocks(gathered));
        for (std::int64_t source = 0; source < ranks; ++source) {
          const AttentionArgs passing = zigzag.Over(source, source + 1);
          const std::vector<AttentionBlock> blocks = AttentionBlocks(passing);
          ExpectExactly(passing, blocks);
          EXPECT_EQ(blocks.size(), 1U) << "of rank " << source;
        }
      }
    }
  }
}

// Blocks of one sequence: the early chunks of ranks before, the own square, and all rows of ranks behind.
TEST(AttentionBlocks, AreAsLargeAsRowsAllow) {
  Zigzag zigzag{4, 1};
  const std::vector<AttentionBlock> blocks = AttentionBlocks(zigzag.Over(0, 4));
  const std::int64_t own = 2 * kLength;
  EXPECT_EQ(blocks, (std::vector<AttentionBlock>{
                        {.query = 0, .queries = own, .key = own, .keys = own, .causal = true},
                        {.query = 0, .queries = own, .key = 0, .keys = kLength, .causal = false},
                        {.query = kLength, .queries = kLength, .key = 2 * own, .keys = 2 * own, .causal = false}}));
}

TEST(AttentionBlocks, ChunksThatOverlapInPartHaveNone) {
  Zigzag zigzag{2, 0};
  AttentionArgs args = zigzag.Over(0, 2);
  zigzag.keys[0].position += 1;
  EXPECT_TRUE(AttentionBlocks(args).empty());
}

// A key that two blocks would hold: its gradient would be written twice.
TEST(AttentionBlocks, KeysInTwoBlocksHaveNone) {
  const std::vector<std::int64_t> queries{0, kLength};
  const std::vector<KeyChunk> keys{{.position = 0, .row = kLength}, {.position = kLength, .row = 0}};
  AttentionArgs args{.batch = 1, .sequence = 2 * kLength};
  args.query_chunks = queries;
  args.key_chunks = keys;
  args.kv = {&args, DType::kFloat32, {1, 1}};
  EXPECT_TRUE(AttentionBlocks(args).empty());
}

}  // namespace
}  // namespace trireme
