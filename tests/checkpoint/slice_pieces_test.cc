#include "checkpoint/format/slice_pieces.h"

#include "base/error.h"

namespace trireme {
namespace {

TEST(SlicePieces, AColumnCutOfAMatrixIsOnePiece) {
  const Parameter parameter{.name = "w", .shape = {100, 64}, .split = {.dim = 1, .segments = {64}}};
  const auto pieces = PiecesOf(SliceRuns(parameter, 4, 1));
  ASSERT_EQ(pieces.size(), 1U);
  EXPECT_EQ(pieces[0], (SlicePiece{.first = 16, .count = 16, .stride = 64, .times = 100}));
}

TEST(SlicePieces, ARaggedShardOfAColumnCutIsThreePieces) {
  std::vector<SliceRun> runs = {{.local = 0, .global = 20, .count = 5}};
  for (int row = 1; row < 9; ++row) {
    runs.push_back({.local = 5 + (row - 1) * 16, .global = 16 + row * 64, .count = 16});
  }
  runs.push_back({.local = 133, .global = 16 + 9 * 64, .count = 3});
  EXPECT_EQ(PiecesOf(runs).size(), 3U);
}

TEST(SlicePieces, RunsAtUnevenDistancesAreNotOnePiece) {
  const std::vector<SliceRun> runs = {{.local = 0, .global = 3, .count = 2},
                                      {.local = 2, .global = 10, .count = 2},
                                      {.local = 4, .global = 18, .count = 2},
                                      {.local = 6, .global = 25, .count = 2}};
  const auto pieces = PiecesOf(runs);
  EXPECT_EQ(pieces.size(), 2U);
  const auto back = RunsOf(pieces);
  ASSERT_EQ(back.size(), runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(back[i].global, runs[i].global);
  }
}

TEST(SlicePieces, RunsComeBackFromPieces) {
  const std::vector<SliceRun> runs = {{.local = 0, .global = 3, .count = 2},
                                      {.local = 2, .global = 10, .count = 2},
                                      {.local = 4, .global = 17, .count = 2},
                                      {.local = 6, .global = 40, .count = 7},
                                      {.local = 13, .global = 50, .count = 7}};
  const auto pieces = PiecesOf(runs);
  EXPECT_EQ(pieces.size(), 2U);
  const auto back = RunsOf(pieces);
  ASSERT_EQ(back.size(), runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(back[i].local, runs[i].local);
    EXPECT_EQ(back[i].global, runs[i].global);
    EXPECT_EQ(back[i].count, runs[i].count);
  }
  EXPECT_EQ(ElementsOf(pieces), 20);
  EXPECT_EQ(LowestOf(pieces), 3);
  EXPECT_EQ(HighestOf(pieces), 57);
}

TEST(SlicePieces, ImpossiblePiecesAreRefused) {
  const PieceBounds bounds{.count = 100, .elements = 10};
  const auto refuse = [&](const SlicePiece& piece) {
    EXPECT_THROW(RequireWithin(std::vector{piece}, bounds, "file", "w"), Error)
        << piece.first << " " << piece.count << " " << piece.stride << " " << piece.times;
  };
  EXPECT_NO_THROW(RequireWithin(std::vector{SlicePiece{.first = 90, .count = 10}}, bounds, "file", "w"));
  refuse({.first = 91, .count = 10});
  refuse({.first = -1, .count = 10});
  refuse({.first = 0, .count = 0});
  refuse({.first = 0, .count = 9});
  refuse({.first = 0, .count = 5, .stride = 4, .times = 2});
  refuse({.first = 0, .count = 5, .stride = 5, .times = 0});
  refuse({.first = 0, .count = 1, .stride = std::int64_t{1} << 53, .times = std::int64_t{1} << 53});
}

}  // namespace
}  // namespace trireme
