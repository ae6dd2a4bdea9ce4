#include "base/error.h"
#include "checkpoint/saved_world.h"
#include "checkpoint/tools/reports.h"

namespace trireme {
namespace {

class AnyLayout : public testing::TestWithParam<std::string> {};

// Law 3 without a trainer: all pairs of layouts, bit for bit.
TEST_P(AnyLayout, SavedUnderOneLoadsUnderEveryOther) {
  const ParameterTable table(TinyModel(GetParam()));
  const TestFolder folder;
  std::int64_t step = 1;
  // The cut does not know families: one of them takes all layouts, the others the largest of their kinds.
  std::vector<ParallelLayout> layouts = SomeLayouts();
  if (GetParam() != "gpt2") {
    std::erase_if(layouts, [](const ParallelLayout& layout) { return layout.ranks() > 1 && layout.ranks() < 6; });
  }
  for (const ParallelLayout& save : layouts) {
    SaveWorld(folder.path(), table, save, step);
    const CheckpointReader reader(folder / StepFolderName(step));
    for (const ParallelLayout& load : layouts) {
      ASSERT_EQ(WrongValues(reader, table, load, step), 0) << save.ToString() << " -> " << load.ToString();
    }
    ++step;
  }
}

TEST_P(AnyLayout, TheDigestOfTheStateDoesNotDependOnIt) {
  const ParameterTable table(TinyModel(GetParam()));
  std::vector<std::string> digests;
  for (const ParallelLayout& layout : SomeLayouts()) {
    const TestFolder folder;
    SaveWorld(folder.path(), table, layout, 5);
    digests.push_back(ToHex(DigestOfState(CheckpointReader(folder / StepFolderName(5)))));
    EXPECT_EQ(digests.back(), digests.front()) << layout.ToString();
  }
  const TestFolder other;
  SaveWorld(other.path(), table, SomeLayouts()[3], 6);
  EXPECT_NE(ToHex(DigestOfState(CheckpointReader(other / StepFolderName(6)))), digests.front());
}

INSTANTIATE_TEST_SUITE_P(Families, AnyLayout, testing::Values("gpt2", "bloom", "llama"),
                         [](const auto& each) { return each.param; });

TEST(AnyCut, RandomRunsComeBack) {
  const ParameterTable table(TinyModel("llama"));
  const TestFolder folder;
  SaveTask task{.folder = folder.path(), .step = 3, .ranks = 5};
  for (task.rank = 0; task.rank < task.ranks; ++task.rank) {
    WriteShard(task, Views(RandomSlicesOfRank(table, 5, static_cast<int>(task.rank), 3)));
  }
  task.rank = 0;
  CommitCheckpoint(task, StateAt(table.config(), 3), {.seconds = 0});
  const CheckpointReader reader(folder / StepFolderName(3));
  for (const ParallelLayout& load : SomeLayouts()) {
    EXPECT_EQ(WrongValues(reader, table, load, 3), 0) << load.ToString();
  }
}

TEST(AnyCut, SlicesLongerThanAChunkAreReadAcrossItsBorders) {
  const ModelConfig model =
      Completed({.family = "gpt2", .layers = 1, .hidden = 64, .heads = 2, .vocabulary = 40'000, .sequence = 16});
  const ParameterTable table(model);
  const TestFolder folder;
  ParallelLayout layout;
  SaveWorld(folder.path(), table, layout, 1);
  const CheckpointReader reader(folder / StepFolderName(1));
  const StoredTensor* tensor = reader.Find("embedding.token", kMasterKind);
  ASSERT_GT(reader.Slices(*tensor)[0].slice.chunks.size(), 2U);
  const std::int64_t border = kChunkBytes / kElementBytes;
  std::vector<float> values(64);
  for (const std::int64_t first : {std::int64_t{0}, border - 32, 2 * border - 1, tensor->about.shape.count() - 64}) {
    reader.Read(*tensor, first, values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(values[i], ValueAt("embedding.token", kMasterKind, first + static_cast<std::int64_t>(i), 1));
    }
  }
}

TEST(Commit, RefusesATensorThatRanksSavedInPart) {
  const ParameterTable table(TinyModel("gpt2"));
  const TestFolder folder;
  auto owned = SlicesOfRank(table, {}, 0, 1);
  owned.erase(owned.begin());
  owned.front().slice.pieces[0].count -= 1;
  owned.front().values.pop_back();
  const SaveTask task{.folder = folder.path(), .step = 1};
  WriteShard(task, Views(owned));
  EXPECT_THROW(CommitCheckpoint(task, StateAt(table.config(), 1), {.seconds = 0}), Error);
  EXPECT_TRUE(ListCheckpoints(folder.path()).empty());
}

}  // namespace
}  // namespace trireme
