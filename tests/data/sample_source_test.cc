#include "data/samples/sample_source.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "base/error.h"
#include "data/dataset/indexed_dataset.h"
#include "data/dataset/indexed_dataset_writer.h"
#include "data/samples/blend_source.h"
#include "data/samples/data_split.h"
#include "data/samples/keyed_permutation.h"
#include "data/samples/synthetic_source.h"
#include "data/samples/window_source.h"
#include "scratch_directory.h"

namespace trireme {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// Documents of the given lengths whose tokens count 0, 1, 2, … through the whole stream.
std::string WriteCounting(const ScratchDirectory& scratch, const std::string& name, const std::vector<int>& lengths) {
  IndexedDatasetWriter writer(scratch / name, TokenKind::kInt32);
  std::int32_t next = 0;
  for (const int length : lengths) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(length));
    std::iota(tokens.begin(), tokens.end(), next);
    next += length;
    writer.AddSequence(tokens);
    writer.EndDocument();
  }
  writer.Finish();
  return scratch / (name + ".bin");
}

std::string ErrorOf(const SourceOptions& options) {
  try {
    OpenSource(options)->Get(0);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(KeyedPermutation, IsABijectionForEverySize) {
  for (std::uint64_t size = 1; size < 300; ++size) {
    const KeyedPermutation permutation(size, size * 17);
    std::set<std::uint64_t> images;
    for (std::uint64_t i = 0; i < size; ++i) {
      images.insert(permutation(i));
    }
    EXPECT_EQ(images.size(), size);
    EXPECT_LT(*images.rbegin(), size);
  }
}

TEST(KeyedPermutation, KeysGiveDifferentOrders) {
  int equal = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    equal += KeyedPermutation(1000, 1)(i) == KeyedPermutation(1000, 2)(i) ? 1 : 0;
  }
  EXPECT_LT(equal, 10);
}

TEST(SyntheticSource, IsAPureFunctionOfSeedAndIndex) {
  const SourceOptions options{.source = "synthetic", .sequence = 64, .seed = 3, .vocabulary = 50304};
  const auto first = OpenSource(options);
  const auto second = OpenSource(options);
  EXPECT_EQ(first->Get(1'000'000'007).tokens, second->Get(1'000'000'007).tokens);
  EXPECT_NE(first->Get(0).tokens, first->Get(1).tokens);
  SourceOptions other = options;
  other.seed = 4;
  EXPECT_NE(first->Get(0).tokens, OpenSource(other)->Get(0).tokens);
  other = options;
  other.split = "validation";
  EXPECT_NE(first->Get(0).tokens, OpenSource(other)->Get(0).tokens);
}

TEST(SyntheticSource, StaysInsideSmallVocabularies) {
  for (const std::int64_t vocabulary : {1, 2, 7, 100, 256, 1000}) {
    const auto source = OpenSource({.source = "synthetic", .sequence = 200, .vocabulary = vocabulary});
    EXPECT_EQ(source->vocabulary(), std::min<std::int64_t>(vocabulary, 256));
    const Sample sample = source->Get(5);
    ASSERT_EQ(sample.tokens.size(), 201U);
    EXPECT_THAT(sample.tokens, Each(testing::AllOf(testing::Ge(0), testing::Lt(source->vocabulary()))));
  }
}

TEST(SyntheticSource, ASecondOrderModelPredictsItWell) {
  const auto source = OpenSource({.source = "synthetic", .sequence = 4096, .seed = 1, .vocabulary = 32});
  std::map<std::array<std::int32_t, 3>, double> triples;
  std::map<std::array<std::int32_t, 2>, double> pairs;
  double total = 0;
  for (int index = 0; index < 20; ++index) {
    const auto tokens = source->Get(index).tokens;
    for (std::size_t t = 2; t < tokens.size(); ++t) {
      triples[{tokens[t - 2], tokens[t - 1], tokens[t]}] += 1;
      pairs[{tokens[t - 2], tokens[t - 1]}] += 1;
      total += 1;
    }
  }
  double loss = 0;
  for (const auto& [triple, count] : triples) {
    loss -= count / total * std::log(count / pairs[{triple[0], triple[1]}]);
  }
  EXPECT_NEAR(loss, SyntheticSource::kEntropy, 0.06);
}

TEST(WindowSource, EpochsVisitEveryWindowOnceInADifferentOrder) {
  const ScratchDirectory scratch;
  const auto path = WriteCounting(scratch, "counting", {500, 300, 201});
  const auto source = OpenSource({.source = path, .sequence = 10, .seed = 9});
  std::vector<std::vector<std::int32_t>> orders;
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<std::int32_t> order;
    for (int i = 0; i < 100; ++i) {
      const auto tokens = source->Get(epoch * 100 + i).tokens;
      order.push_back(tokens[0]);
      for (std::size_t t = 0; t < tokens.size(); ++t) {
        EXPECT_EQ(tokens[t], tokens[0] + static_cast<std::int32_t>(t));
      }
    }
    orders.push_back(order);
    EXPECT_EQ(std::set<std::int32_t>(order.begin(), order.end()).size(), 100U);
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_FALSE(std::is_sorted(orders[0].begin(), orders[0].end()));
}

TEST(WindowSource, ThreadsReadTheSameSamples) {
  const ScratchDirectory scratch;
  const auto source = OpenSource({.source = WriteCounting(scratch, "counting", {5000}), .sequence = 16});
  std::vector<Sample> expected;
  for (int i = 0; i < 200; ++i) {
    expected.push_back(source->Get(i));
  }
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 199; i >= 0; --i) {
        wrong += source->Get(i).tokens != expected[static_cast<std::size_t>(i)].tokens;
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0);
}

TEST(WindowSource, DocumentMasksHideOtherDocuments) {
  const ScratchDirectory scratch;
  const auto path = WriteCounting(scratch, "documents", {3, 0, 4, 2});
  const auto source = OpenSource({.source = path, .sequence = 8, .document_masks = true});
  const Sample sample = source->Get(0);
  EXPECT_THAT(sample.document_starts, ElementsAre(0, 0, 0, 3, 3, 3, 3, 7));
  EXPECT_THAT(source->DocumentLengths(0), ElementsAre(3, 4, 1));
  EXPECT_THAT(sample.weights, ElementsAre(1, 1, 0, 1, 1, 1, 0, 1));
}

TEST(WindowSource, PaddingKeepsTheShortEnd) {
  const ScratchDirectory scratch;
  const auto path = WriteCounting(scratch, "short", {8});
  const auto source = OpenSource({.source = path, .sequence = 5, .padding_masks = true});
  std::map<std::int32_t, Sample> by_start;
  for (int i = 0; i < 2; ++i) {
    Sample sample = source->Get(i);
    by_start[sample.tokens[0]] = sample;
  }
  EXPECT_TRUE(by_start.at(0).weights.empty());
  EXPECT_THAT(by_start.at(5).tokens, ElementsAre(5, 6, 7, 0, 0, 0));
  EXPECT_THAT(by_start.at(5).weights, ElementsAre(1, 1, 0, 0, 0));
}

TEST(WindowSource, SplitsAreDisjointAndFollowDocuments) {
  const ScratchDirectory scratch;
  const auto path = WriteCounting(scratch, "split", std::vector<int>(1000, 10));
  std::set<std::int32_t> seen;
  std::size_t total = 0;
  for (const char* split : {"train", "validation", "test"}) {
    const WindowSource source(OpenIndexedDataset(path),
                              {.sequence = 4, .split = split, .split_weights = "80.53,15.04,4.43"});
    EXPECT_EQ(source.range().first % 10, 0) << split;
    for (int i = 0; i < source.samples(); ++i) {
      const auto tokens = source.Get(i).tokens;
      seen.insert(tokens.begin(), tokens.end() - 1);
      total += 4;
    }
  }
  EXPECT_EQ(seen.size(), total);
}

TEST(WindowSource, OneDocumentIsCutInside) {
  const ScratchDirectory scratch;
  WriteBytes(scratch / "text", std::string(1000, 'x'));
  const auto store = OpenByteStore(scratch / "text");
  EXPECT_EQ(SplitTokens(*store, "train", "9,1"), (TokenRange{0, 900}));
  EXPECT_EQ(SplitTokens(*store, "validation", "9,1"), (TokenRange{900, 1000}));
  EXPECT_EQ(SplitTokens(*store, "test", "9,1"), (TokenRange{1000, 1000}));
  EXPECT_EQ(SplitTokens(*store, "test", ""), (TokenRange{0, 1000}));
}

TEST(BlendSource, ProportionsHoldInEveryPrefix) {
  std::vector<std::pair<double, std::unique_ptr<SampleSource>>> parts;
  const std::vector<double> weights = {0.5, 0.3, 0.15, 0.05};
  for (const double weight : weights) {
    parts.emplace_back(weight, OpenSource({.source = "synthetic", .sequence = 1}));
  }
  const BlendSource blend(std::move(parts), 5);
  std::vector<std::int64_t> counts(4);
  std::vector<std::set<std::int64_t>> locals(4);
  for (std::int64_t index = 0; index < BlendSource::kBlock + 5000; ++index) {
    const auto [source, local] = blend.Locate(index);
    ++counts[source];
    EXPECT_TRUE(locals[source].insert(local).second);
    for (std::size_t d = 0; d < 4; ++d) {
      ASSERT_NEAR(static_cast<double>(counts[d]), weights[d] * static_cast<double>(index + 1), 20) << index;
    }
  }
}

TEST(BlendSource, ReadsAWeightedList) {
  const ScratchDirectory scratch;
  WriteBytes(scratch / "a", std::string(4000, 'a'));
  WriteBytes(scratch / "b", std::string(4000, 'b'));
  const auto source =
      OpenSource({.source = "3 " + (scratch / "a") + " 1 " + (scratch / "b"), .sequence = 8, .vocabulary = 256});
  int from_a = 0;
  for (int i = 0; i < 400; ++i) {
    from_a += source->Get(i).tokens[0] == 'a' ? 1 : 0;
  }
  EXPECT_NEAR(from_a, 300, 8);
  EXPECT_EQ(source->vocabulary(), 256);
}

TEST(OpenSource, RefusesWhatCannotWork) {
  const ScratchDirectory scratch;
  WriteBytes(scratch / "text", "hello");
  const auto path = WriteCounting(scratch, "counting", {100});
  EXPECT_THAT(ErrorOf({.source = "", .sequence = 4}), HasSubstr("no data source"));
  EXPECT_THAT(ErrorOf({.source = scratch / "absent", .sequence = 4}), HasSubstr("absent"));
  EXPECT_THAT(ErrorOf({.source = scratch / "text", .sequence = 5}), HasSubstr("5 tokens, too few"));
  EXPECT_THAT(ErrorOf({.source = scratch / "text", .sequence = 2, .vocabulary = 100}), HasSubstr("at least 256"));
  EXPECT_THAT(ErrorOf({.source = path, .sequence = 0}), HasSubstr("must be positive"));
  EXPECT_THAT(ErrorOf({.source = path, .sequence = 99, .vocabulary = 50}),
              HasSubstr("token 50 at position 50 of '" + path + "' is outside the vocabulary of 50"));
  EXPECT_THAT(ErrorOf({.source = path, .sequence = 4, .split = "training"}), HasSubstr("did you mean 'train'"));
  EXPECT_THAT(ErrorOf({.source = path, .sequence = 4, .split_weights = "9;1"}), HasSubstr("969,30,1"));
  EXPECT_THAT(ErrorOf({.source = path, .sequence = 4, .split_weights = "0,0"}), HasSubstr("all zero"));
  EXPECT_THAT(ErrorOf({.source = "0.5 " + path + " 0.5", .sequence = 4}), HasSubstr("alternate"));
  EXPECT_THAT(ErrorOf({.source = "0.5 " + path + " -1 " + path, .sequence = 4}), HasSubstr("positive weight"));
}

TEST(OpenSource, AFileThatShrinksIsAnError) {
  const ScratchDirectory scratch;
  const auto path = WriteCounting(scratch, "shrinks", {1000});
  const auto source = OpenSource({.source = path, .sequence = 100});
  std::filesystem::resize_file(path, 10);
  EXPECT_THROW(source->Get(0), Error);
}

}  // namespace
}  // namespace trireme
