// Samples of a global batch dealt by attention work: each once, equal numbers, even sums.
#include "train/work_balance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "data/samples/packed_source.h"
#include "message_of.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ModelConfig ModelOf(std::int64_t layers) {
  ModelConfig model;
  model.layers = layers;
  return model;
}

// Attention work of samples of 8,192 tokens, packed of documents of 16 tokens to a whole sample, log-uniform.
std::vector<double> WorkOfMix() {
  std::vector<DocumentPiece> pieces;
  std::int64_t first = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const double draw = static_cast<double>(RandomBelow(7, i, 1 << 20)) / (1 << 20);
    pieces.push_back({first, static_cast<std::int64_t>(16 * std::pow(512.0, draw))});
    first += pieces.back().tokens;
  }
  std::vector<double> work;
  for (const std::vector<DocumentPiece>& sample : PackBestFit(pieces, 8193)) {
    std::vector<std::int64_t> documents;
    for (const DocumentPiece& piece : sample) {
      documents.push_back(piece.tokens);
    }
    work.push_back(AttentionWork(ModelOf(1), documents));
  }
  return work;
}

// Batches of `size` samples, in the order in which a run of seed 3 would visit them.
std::vector<std::vector<double>> BatchesOf(std::vector<double> work, std::size_t size) {
  for (std::size_t i = work.size(); i > 1; --i) {
    std::swap(work[i - 1], work[RandomBelow(3, i, i)]);
  }
  std::vector<std::vector<double>> batches;
  for (std::size_t first = 0; first + size <= work.size(); first += size) {
    batches.emplace_back(work.begin() + static_cast<std::ptrdiff_t>(first),
                         work.begin() + static_cast<std::ptrdiff_t>(first + size));
  }
  return batches;
}

std::vector<std::int64_t> ByNumber(std::size_t samples) {
  std::vector<std::int64_t> order(samples);
  std::iota(order.begin(), order.end(), std::int64_t{0});
  return order;
}

TEST(WorkBalance, CountsPairsWithinDocumentsAndWindows) {
  EXPECT_EQ(AttentionWork(ModelOf(2), std::vector<std::int64_t>{3, 1}), 2 * (6 + 1));
  ModelConfig model = ModelOf(4);
  model.window = 2;
  EXPECT_EQ(AttentionWork(model, std::vector<std::int64_t>{4}), 4 * 7);
  model.window_period = 2;  // layers 1 and 3 see everything
  double sum = 0;
  for (std::int64_t layer = 0; layer < 4; ++layer) {
    sum += model.WindowOf(layer) == 0 ? 10 : 7;
  }
  EXPECT_EQ(AttentionWork(model, std::vector<std::int64_t>{4}), sum);
}

TEST(WorkBalance, TheHeaviestGoesToTheLeastBusyRankThatHasRoom) {
  // Rank 0 gets 9 and then the two lightest; rank 1 all between.
  EXPECT_THAT(DealByWork({1, 9, 2, 4, 3, 4}, {.data_size = 2, .micro_batches = 3}), ElementsAre(1, 3, 2, 5, 0, 4));
  // Micro batches of two on one rank: heavy with light.
  EXPECT_THAT(DealByWork({4, 3, 2, 1}, {.micro_batches = 2, .micro_batch = 2}), ElementsAre(0, 3, 1, 2));
  // Groups stay together.
  EXPECT_THAT(DealByWork({1, 1, 5, 5, 2, 2, 4, 4},
                         {.data_size = 2, .micro_batches = 2, .micro_batch = 2, .keeps_groups = true}),
              ElementsAre(2, 3, 6, 7, 0, 1, 4, 5));
  EXPECT_THAT(test::MessageOf([] {
                DealByWork({1, 2, 3}, {.data_size = 2});
              }),
              HasSubstr("3 samples cannot be dealt to 2 data ranks"));
}

TEST(WorkBalance, EverySampleIsDealtOnce) {
  const std::vector<double> work = BatchesOf(WorkOfMix(), 48).front();
  for (const bool groups : {false, true}) {
    std::vector<std::int64_t> order =
        DealByWork(work, {.data_size = 4, .micro_batches = 6, .micro_batch = 2, .keeps_groups = groups});
    EXPECT_NE(order, ByNumber(48));
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, ByNumber(48));
  }
}

// At most 10 % between data ranks for a mix of documents; by number it is more than 5 % on average.
TEST(WorkBalance, DataRanksAreEvenOnAMixOfDocuments) {
  const std::vector<double> work = WorkOfMix();
  for (const auto& [shape, samples] : {std::pair{DealShape{.data_size = 2, .micro_batches = 8}, 16},
                                       {DealShape{.data_size = 4, .micro_batches = 8}, 32},
                                       {DealShape{.data_size = 8, .micro_batches = 4, .micro_batch = 2}, 64},
                                       {DealShape{.data_size = 16, .micro_batches = 4, .micro_batch = 4}, 256}}) {
    double dealt = 0;
    double numbered = 0;
    double dealt_batches = 0;
    double numbered_batches = 0;
    const auto batches = BatchesOf(work, static_cast<std::size_t>(samples));
    for (const std::vector<double>& batch : batches) {
      const WorkBalance even = BalanceOf(batch, DealByWork(batch, shape), shape);
      const WorkBalance plain = BalanceOf(batch, ByNumber(batch.size()), shape);
      dealt = std::max(dealt, even.data_ranks);
      numbered += plain.data_ranks / static_cast<double>(batches.size());
      dealt_batches += even.micro_batches;
      numbered_batches += plain.micro_batches;
    }
    SCOPED_TRACE(testing::Message() << shape.data_size << " data ranks, mean by number " << numbered << ", worst dealt "
                                    << dealt);
    EXPECT_LE(dealt, 0.10);
    EXPECT_GT(numbered, 0.05);
    RecordProperty(fmt::format("ranks_{}", shape.data_size), fmt::format("{:.3f} {:.3f}", numbered, dealt));
    if (shape.micro_batch > 1) {
      EXPECT_LT(dealt_batches, 0.7 * numbered_batches);
    }
  }
}

}  // namespace
}  // namespace trireme
