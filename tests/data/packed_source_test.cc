// Packing of documents: none crosses into another sample, every target comes once an epoch, padding weighs nothing.
#include "data/samples/packed_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "base/random.h"
#include "data/dataset/indexed_dataset.h"
#include "data/dataset/indexed_dataset_writer.h"
#include "message_of.h"
#include "scratch_directory.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Documents of the given lengths whose tokens count 1, 2, 3, … through the whole stream.
std::unique_ptr<TokenStore> CountingStore(const ScratchDirectory& scratch, const std::vector<int>& lengths) {
  IndexedDatasetWriter writer(scratch / "packed", TokenKind::kInt32);
  std::int32_t next = 1;
  for (const int length : lengths) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(length));
    std::iota(tokens.begin(), tokens.end(), next);
    next += length;
    writer.AddSequence(tokens);
    writer.EndDocument();
  }
  writer.Finish();
  return OpenIndexedDataset(scratch / "packed.bin");
}

SourceOptions Options(std::int64_t sequence) {
  return {.source = "", .sequence = sequence, .vocabulary = 1 << 20, .document_masks = true, .best_fit = true};
}

TEST(PackBestFit, LeavesTheLeastRoom) {
  const auto piece = [](std::int64_t first, std::int64_t tokens) { return DocumentPiece{first, tokens}; };
  // 7 and 5 open samples; 3 fits both and fills the first, 2 goes to the second.
  EXPECT_THAT(PackBestFit({piece(0, 3), piece(3, 5), piece(8, 7), piece(15, 2)}, 10),
              ElementsAre(ElementsAre(piece(8, 7), piece(0, 3)), ElementsAre(piece(3, 5), piece(15, 2))));
  EXPECT_THAT(test::MessageOf([&] { PackBestFit({piece(0, 11)}, 10); }), HasSubstr("does not fit"));
}

TEST(PackBestFit, WastesLittleOfARealMix) {
  std::vector<DocumentPiece> pieces;
  std::int64_t tokens = 0;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    // Log-uniform from 16 to 4096, as lengths of pages are.
    const double draw = static_cast<double>(RandomBelow(7, i, 1 << 20)) / (1 << 20);
    pieces.push_back({tokens, static_cast<std::int64_t>(16 * std::pow(256.0, draw))});
    tokens += pieces.back().tokens;
  }
  const auto samples = static_cast<double>(PackBestFit(pieces, 8193).size());
  EXPECT_LT(samples * 8193 / static_cast<double>(tokens), 1.01);
}

TEST(PackedSource, EveryTargetComesOnceAnEpochAndNoDocumentCrosses) {
  const ScratchDirectory scratch;
  const std::vector<int> lengths{3, 9, 1, 25, 8, 2, 5, 4, 17, 6};
  const PackedSource source(CountingStore(scratch, lengths), Options(8));
  std::map<std::int32_t, int> targets;
  for (std::int64_t index = 0; index < source.samples(); ++index) {
    const Sample sample = source.Get(index);
    ASSERT_EQ(sample.tokens.size(), 9U);
    for (std::size_t t = 0; t < sample.weights.size(); ++t) {
      const auto start = static_cast<std::size_t>(sample.document_starts[t]);
      if (sample.weights[t] > 0) {
        ++targets[sample.tokens[t + 1]];
        // Consecutive tokens of one document, back to where it begins here.
        EXPECT_EQ(sample.tokens[t + 1], sample.tokens[t] + 1);
        EXPECT_EQ(sample.tokens[t], sample.tokens[start] + static_cast<std::int32_t>(t - start));
      }
    }
  }
  std::int32_t first = 1;
  for (const int length : lengths) {
    for (std::int32_t token = first + 1; token < first + length; ++token) {
      EXPECT_EQ(targets[token], 1) << token;
    }
    EXPECT_EQ(targets.count(first), 0U) << "the first token of a document is no target";
    first += length;
  }
}

TEST(PackedSource, PaddingSeesItselfAlone) {
  const ScratchDirectory scratch;
  const PackedSource source(CountingStore(scratch, {4, 3}), Options(12));
  ASSERT_EQ(source.samples(), 1);
  const Sample sample = source.Get(0);
  EXPECT_THAT(sample.tokens, ElementsAre(1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(sample.weights, ElementsAre(1, 1, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(sample.document_starts, ElementsAre(0, 0, 0, 0, 4, 4, 4, 7, 8, 9, 10, 11));
  EXPECT_NEAR(source.padding_share(), 6.0 / 13, 1e-12);
  EXPECT_THAT(source.description(), HasSubstr("packed into 1 samples of 12 an epoch, 46.2 % padding"));
}

// From the index alone, as the sample itself would say; padding is left out.
TEST(PackedSource, LengthsOfDocumentsAreThoseOfTheSample) {
  const ScratchDirectory scratch;
  const PackedSource source(CountingStore(scratch, {3, 9, 1, 25, 8, 2, 5, 4, 17, 6}), Options(8));
  for (std::int64_t index = 0; index < 2 * source.samples(); ++index) {
    std::vector<std::int64_t> lengths = source.DocumentLengths(index);
    const std::int64_t filled = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
    lengths.insert(lengths.end(), static_cast<std::size_t>(8 - filled), 1);
    EXPECT_EQ(lengths, source.SampleSource::DocumentLengths(index)) << index;
  }
  SourceOptions open = Options(8);
  open.document_masks = false;
  EXPECT_THAT(PackedSource(CountingStore(scratch, {3, 4}), open).DocumentLengths(0), ElementsAre(8));
}

TEST(PackedSource, ItsMistakesAreNamed) {
  const ScratchDirectory scratch;
  EXPECT_THAT(test::MessageOf([&] {
                PackedSource(CountingStore(scratch, {1, 1}), Options(8));
              }),
              HasSubstr("no document of two tokens"));
  EXPECT_THAT(
      test::MessageOf([] { OpenSource({.source = "synthetic", .sequence = 8, .vocabulary = 50, .best_fit = true}); }),
      HasSubstr("'synthetic' has none"));
  SourceOptions small = Options(8);
  small.vocabulary = 3;
  EXPECT_THAT(test::MessageOf([&] { PackedSource(CountingStore(scratch, {6}), small).Get(0); }),
              HasSubstr("outside the vocabulary of 3"));
}

}  // namespace
}  // namespace trireme
