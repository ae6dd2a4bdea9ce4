#include "model/parameter_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace trireme {
namespace {

ModelConfig SmallConfig(const std::string& family, bool tied) {
  ModelConfig config{.family = family,
                     .layers = 2,
                     .hidden = 48,
                     .heads = 12,
                     .kv_heads = 6,
                     .ffn = 60,
                     .vocabulary = 101,
                     .sequence = 16};
  config.tie_embeddings = tied;
  return Completed(config, true);
}

std::string NameAt(const ParameterTable& table, int row) {
  return row < 0 ? "-" : table.rows()[static_cast<std::size_t>(row)].name;
}

TEST(ParameterTable, NamesAreUniqueAndFound) {
  for (const ModelFamily& family : ModelFamilies()) {
    const ParameterTable table(SmallConfig(family.name, false));
    std::set<std::string> names;
    for (std::size_t row = 0; row < table.rows().size(); ++row) {
      EXPECT_TRUE(names.insert(table.rows()[row].name).second);
      EXPECT_EQ(table.Find(table.rows()[row].name), static_cast<int>(row));
    }
    EXPECT_EQ(table.Find("block.9.nothing"), -1);
  }
}

TEST(ParameterTable, EveryRowBelongsToOneModule) {
  const ParameterTable table(SmallConfig("bloom", true));
  std::size_t rows = 0;
  for (std::int64_t module = 0; module < table.config().modules(); ++module) {
    for (const int row : table.OfModule(module)) {
      EXPECT_EQ(table.rows()[static_cast<std::size_t>(row)].module, module);
      EXPECT_EQ(static_cast<std::size_t>(row), rows++);
    }
  }
  EXPECT_EQ(rows, table.rows().size());
}

TEST(ParameterPlaces, NameTheRowsOfABlock) {
  const ParameterTable table(SmallConfig("gpt2", true));
  const auto block = [&](std::string_view name) { return table.InBlock(1, name); };
  EXPECT_EQ(NameAt(table, block("attention.norm.gain")), "block.1.attention.norm.gain");
  EXPECT_EQ(NameAt(table, block("attention.norm.bias")), "block.1.attention.norm.bias");
  EXPECT_EQ(NameAt(table, block("attention.qkv.weight")), "block.1.attention.qkv.weight");
  EXPECT_EQ(NameAt(table, block("attention.qkv.bias")), "block.1.attention.qkv.bias");
  EXPECT_EQ(NameAt(table, block("attention.out.weight")), "block.1.attention.out.weight");
  EXPECT_EQ(NameAt(table, block("attention.out.bias")), "block.1.attention.out.bias");
  EXPECT_EQ(NameAt(table, block("mlp.norm.gain")), "block.1.mlp.norm.gain");
  EXPECT_EQ(NameAt(table, block("mlp.norm.bias")), "block.1.mlp.norm.bias");
  EXPECT_EQ(NameAt(table, block("mlp.in.weight")), "block.1.mlp.in.weight");
  EXPECT_EQ(NameAt(table, block("mlp.in.bias")), "block.1.mlp.in.bias");
  EXPECT_EQ(NameAt(table, block("mlp.out.weight")), "block.1.mlp.out.weight");
  EXPECT_EQ(NameAt(table, block("mlp.out.bias")), "block.1.mlp.out.bias");
}

TEST(ParameterPlaces, AreMinusOneForWhatAFamilyLacks) {
  const ParameterTable llama(SmallConfig("llama", false));
  const auto block = [&](std::string_view name) { return llama.InBlock(0, name); };
  EXPECT_EQ(block("attention.norm.bias"), -1);
  EXPECT_EQ(block("attention.qkv.bias"), -1);
  EXPECT_EQ(NameAt(llama, block("mlp.out.weight")), "block.0.mlp.out.weight");
  EXPECT_EQ(llama.Find("embedding.position"), -1);
  const ParameterTable bloom(SmallConfig("bloom", true));
  EXPECT_EQ(NameAt(bloom, bloom.Find("embedding.norm.bias")), "embedding.norm.bias");
}

TEST(ParameterPlaces, ATiedHeadUsesTheTokenTable) {
  const ParameterTable tied(SmallConfig("gpt2", true));
  EXPECT_EQ(tied.Find("head.weight"), -1);
  EXPECT_TRUE(tied.Tied(tied.token_table()));
  const ParameterTable untied(SmallConfig("gpt2", false));
  EXPECT_EQ(NameAt(untied, untied.Find("head.weight")), "head.weight");
  EXPECT_FALSE(untied.Tied(untied.token_table()));
}

TEST(ParameterTable, DecayFollowsTheRole) {
  for (const ModelFamily& family : ModelFamilies()) {
    const ParameterTable table(SmallConfig(family.name, false));
    for (const Parameter& row : table.rows()) {
      const bool vector = row.role == ParameterRole::kNormGain || row.role == ParameterRole::kNormBias ||
                          row.role == ParameterRole::kBias;
      EXPECT_EQ(row.decays, !vector) << row.name;
      EXPECT_EQ(row.shape.rank(), vector ? 1 : 2) << row.name;
    }
  }
}

TEST(ParameterTable, BranchOutputsStartSmaller) {
  const ParameterTable table(SmallConfig("llama", false));
  const auto block = [&](std::string_view name) { return table.InBlock(0, name); };
  const auto& rows = table.rows();
  EXPECT_DOUBLE_EQ(rows[static_cast<std::size_t>(block("attention.qkv.weight"))].deviation, 0.02);
  EXPECT_DOUBLE_EQ(rows[static_cast<std::size_t>(block("attention.out.weight"))].deviation, 0.02 / 2);
  EXPECT_DOUBLE_EQ(rows[static_cast<std::size_t>(block("mlp.out.weight"))].deviation, 0.02 / 2);
  EXPECT_EQ(rows[static_cast<std::size_t>(block("mlp.norm.gain"))].initializer, Initializer::kOne);
}

TEST(PaddedShare, IsAMultipleOfEightThatCoversItsPart) {
  EXPECT_EQ(PaddedShare(256, 2), 128);
  EXPECT_EQ(PaddedShare(101, 1), 104);
  EXPECT_EQ(PaddedShare(101, 3), 40);
  EXPECT_EQ(PaddedShare(50257, 4), 12568);
}

// The slices of all ranks must give every element exactly once (replicated ones: once a rank), and lie inside the local
// shape without overlap.
TEST(SliceRuns, CoverEveryParameterExactlyOnce) {
  for (const ModelFamily& family : ModelFamilies()) {
    const ParameterTable table(SmallConfig(family.name, false));
    for (const Parameter& row : table.rows()) {
      for (const int tensor : {1, 2, 3, 6}) {
        std::vector<int> seen(static_cast<std::size_t>(row.shape.count()), 0);
        for (int rank = 0; rank < tensor; ++rank) {
          std::int64_t local_end = 0;
          for (const SliceRun& run : SliceRuns(row, tensor, rank)) {
            EXPECT_GE(run.local, local_end);
            EXPECT_GT(run.count, 0);
            local_end = run.local + run.count;
            for (std::int64_t i = 0; i < run.count; ++i) {
              ++seen[static_cast<std::size_t>(run.global + i)];
            }
          }
          EXPECT_LE(local_end, LocalShape(row, tensor).count());
        }
        EXPECT_THAT(seen, testing::Each(row.split.replicated() ? tensor : 1)) << row.name << " over " << tensor;
      }
    }
  }
}

TEST(SliceRuns, OneRankHoldsOneRun) {
  const ParameterTable table(SmallConfig("llama", false));
  for (const Parameter& row : table.rows()) {
    EXPECT_EQ(SliceRuns(row, 1, 0).size(), 1U) << row.name;
  }
}

TEST(SliceRuns, QueriesKeysAndValuesAreCutEach) {
  const ParameterTable table(SmallConfig("llama", false));
  const Parameter& qkv = table.rows()[static_cast<std::size_t>(table.InBlock(0, "attention.qkv.weight"))];
  ASSERT_EQ(qkv.shape, (Shape{96, 48}));
  EXPECT_EQ(LocalShape(qkv, 2), (Shape{48, 48}));
  const std::vector<SliceRun> runs = SliceRuns(qkv, 2, 1);
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_EQ(runs[0].global, 24 * 48);
  EXPECT_EQ(runs[1].global, (48 + 12) * 48);
  EXPECT_EQ(runs[2].global, (72 + 12) * 48);
  EXPECT_EQ(runs[2].local, 36 * 48);
}

TEST(SliceRuns, LastVocabularySliceIsShortAndMayBeEmpty) {
  const ParameterTable table(SmallConfig("gpt2", true));
  const Parameter& token = table.rows()[static_cast<std::size_t>(table.token_table())];
  const std::vector<SliceRun> last = SliceRuns(token, 3, 2);
  ASSERT_EQ(last.size(), 1U);
  EXPECT_EQ(last[0].count, (101 - 80) * 48);
  Parameter tiny = token;
  tiny.shape = {9, 4};
  tiny.split.segments = {9};
  EXPECT_TRUE(SliceRuns(tiny, 4, 3).empty());
}

}  // namespace
}  // namespace trireme
