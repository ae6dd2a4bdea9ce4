#include "data/dataset/dataset_tools.h"

#include "base/error.h"
#include "data/dataset/indexed_dataset.h"
#include "data/dataset/indexed_dataset_writer.h"
#include "scratch_directory.h"

namespace trireme {
namespace {

using testing::ElementsAre;

// Documents [begin, end) of a made-up collection; document d has d % 4 sequences of d % 7 tokens.
void WriteDocuments(const std::string& prefix, int begin, int end, TokenKind kind = TokenKind::kUInt16) {
  IndexedDatasetWriter writer(prefix, kind);
  for (int document = begin; document < end; ++document) {
    for (int sequence = 0; sequence < document % 4; ++sequence) {
      writer.AddSequence(std::vector<std::int32_t>(static_cast<std::size_t>(document % 7), document));
    }
    writer.EndDocument();
  }
  writer.Finish();
}

void ExpectEqualFiles(const std::string& a, const std::string& b) {
  EXPECT_EQ(ReadBytes(a + ".idx"), ReadBytes(b + ".idx"));
  EXPECT_EQ(ReadBytes(a + ".bin"), ReadBytes(b + ".bin"));
}

TEST(DatasetTools, MergedPartsEqualTheWhole) {
  const ScratchDirectory scratch;
  WriteDocuments(scratch / "whole", 0, 50);
  WriteDocuments(scratch / "a", 0, 20);
  WriteDocuments(scratch / "b", 20, 20);
  WriteDocuments(scratch / "c", 20, 50);
  MergeDatasets({scratch / "a", scratch / "b.bin", scratch / "c.idx"}, {.prefix = scratch / "merged"});
  ExpectEqualFiles(scratch / "merged", scratch / "whole");
}

TEST(DatasetTools, DifferentKindsDoNotMerge) {
  const ScratchDirectory scratch;
  WriteDocuments(scratch / "a", 0, 20);
  WriteDocuments(scratch / "b", 0, 20, TokenKind::kInt32);
  EXPECT_THROW(MergeDatasets({scratch / "a", scratch / "b"}, {.prefix = scratch / "merged"}), Error);
  EXPECT_THROW(MergeDatasets({scratch / "a"}, {.prefix = scratch / "a"}), Error);
}

TEST(DatasetTools, SplitPartsMergeToTheWhole) {
  const ScratchDirectory scratch;
  WriteDocuments(scratch / "whole", 0, 200);
  const auto tokens = SplitDataset(scratch / "whole", "8,1,1", {.prefix = scratch / "part"});
  const double total = static_cast<double>(IndexedDataset(scratch / "whole").tokens());
  EXPECT_NEAR(static_cast<double>(tokens[0]), total * 0.8, 20);
  EXPECT_NEAR(static_cast<double>(tokens[1]), total * 0.1, 20);
  MergeDatasets({scratch / "part-train", scratch / "part-validation", scratch / "part-test"},
                {.prefix = scratch / "merged"});
  ExpectEqualFiles(scratch / "merged", scratch / "whole");
}

TEST(DatasetTools, TheTokenizerGoesWithEveryPartAndBack) {
  const ScratchDirectory scratch;
  WriteDocuments(scratch / "whole", 0, 200);
  std::filesystem::create_directory(scratch / "whole.tokenizer");
  WriteBytes(scratch / "whole.tokenizer/tokenizer.json", "one");
  SplitDataset(scratch / "whole.bin", "1,1,0", {.prefix = scratch / "part"});
  EXPECT_EQ(ReadBytes(scratch / "part-train.tokenizer/tokenizer.json"), "one");
  EXPECT_EQ(ReadBytes(scratch / "part-validation.tokenizer/tokenizer.json"), "one");
  WriteDocuments(scratch / "bare", 0, 3);
  MergeDatasets({scratch / "bare", scratch / "part-train", scratch / "part-validation"},
                {.prefix = scratch / "merged"});
  EXPECT_EQ(ReadBytes(scratch / "merged.tokenizer/tokenizer.json"), "one");
  WriteBytes(scratch / "part-train.tokenizer/tokenizer.json", "another");
  EXPECT_THROW(MergeDatasets({scratch / "part-train", scratch / "part-validation"}, {.prefix = scratch / "mixed"}),
               Error);
}

TEST(DatasetTools, WhatCannotBeMergedOrWouldBeReplacedLeavesNothing) {
  const ScratchDirectory scratch;
  WriteDocuments(scratch / "a", 0, 20);
  EXPECT_THROW(MergeDatasets({scratch / "a", scratch / "nowhere"}, {.prefix = scratch / "merged"}), Error);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch.path()), {}), 2);
  WriteDocuments(scratch / "part-test", 0, 1);
  EXPECT_THROW(SplitDataset(scratch / "a", "8,1,1", {.prefix = scratch / "part"}), Error);
  EXPECT_FALSE(std::filesystem::exists(scratch / "part-train.bin"));
  EXPECT_NO_THROW(SplitDataset(scratch / "a", "8,1,1", {.prefix = scratch / "part", .overwrite = true}));
}

TEST(DatasetTools, PartsWithoutWeightAreNotWritten) {
  const ScratchDirectory scratch;
  WriteDocuments(scratch / "whole", 0, 200);
  SplitDataset(scratch / "whole", "1,0,1", {.prefix = scratch / "part"});
  EXPECT_TRUE(std::filesystem::exists(scratch / "part-train.idx"));
  EXPECT_FALSE(std::filesystem::exists(scratch / "part-validation.idx"));
}

TEST(DatasetTools, InspectionCountsAndFindsTheRange) {
  const ScratchDirectory scratch;
  WriteDocuments(scratch / "whole", 0, 20);
  const DatasetSummary summary = InspectDataset(scratch / "whole");
  EXPECT_EQ(summary.documents, 20);
  EXPECT_EQ(summary.sequences, 30);
  EXPECT_EQ(summary.shortest_document, 0);
  EXPECT_EQ(summary.longest_document, 15);  // document 19: three sequences of five
  EXPECT_EQ(summary.smallest_token, 1);
  EXPECT_EQ(summary.largest_token, 19);
  EXPECT_NO_THROW(InspectDataset(scratch / "whole", 20));
  EXPECT_THROW(InspectDataset(scratch / "whole", 19), Error);
}

}  // namespace
}  // namespace trireme
