#include "infer/evaluation_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "message_of.h"
#include "scratch_directory.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A model of bytes that is known by its shape alone.
ModelFiles BytesModel() {
  ModelFiles files;
  files.model.vocabulary = 256;
  files.model.sequence = 4;
  return files;
}

TEST(EvaluationSamples, OfATextPredictEveryTokenOnce) {
  const ScratchDirectory scratch;
  WriteBytes(scratch / "text", "abcdefghij");
  const EvaluationSamples whole = OpenEvaluation(BytesModel(), {.text = scratch / "text", .length = 4});
  EXPECT_EQ(whole.count, 3);  // nine targets, four a sample
  EXPECT_THAT(whole.get(0).tokens, ElementsAre('a', 'b', 'c', 'd', 'e'));
  ASSERT_NE(whole.tokenizer, nullptr);
  EXPECT_EQ(OpenEvaluation(BytesModel(), {.text = scratch / "text", .samples = 2, .length = 4}).count, 2);
}

TEST(EvaluationSamples, OfTokenListsMayNotBeLongerThanASample) {
  const ScratchDirectory scratch;
  WriteBytes(scratch / "ids", "1 2 3\n4 5 6 7 8\n");
  const EvaluationSamples lists = OpenEvaluation(BytesModel(), {.tokens = scratch / "ids", .length = 4});
  EXPECT_EQ(lists.count, 2);
  EXPECT_THAT(lists.get(1).tokens, ElementsAre(4, 5, 6, 7, 8));
  EXPECT_THAT(test::MessageOf([&] { OpenEvaluation(BytesModel(), {.tokens = scratch / "ids", .length = 3}); }),
              HasSubstr("holds a sample of 5 tokens, longer than 3 + 1"));
}

TEST(EvaluationSamples, OfDataAreTheRunsOwnUnlessOthersAreNamed) {
  ModelFiles files = BytesModel();
  EXPECT_THAT(test::MessageOf([&] { OpenEvaluation(files, {.length = 4}); }),
              HasSubstr("what to evaluate on is not known"));
  files.data_source = "synthetic";
  EXPECT_EQ(OpenEvaluation(files, {.samples = 7, .length = 4}).count, 7);
  EXPECT_THAT(test::MessageOf([&] { OpenEvaluation(files, {.length = 4}); }), HasSubstr("has no end: give --samples"));
  const ScratchDirectory scratch;
  WriteBytes(scratch / "other.txt", std::string(41, 'x'));
  const EvaluationSamples other = OpenEvaluation(files, {.data = scratch / "other.txt", .length = 4});
  EXPECT_EQ(other.get(0).tokens.front(), 'x');
}

}  // namespace
}  // namespace trireme
