// Law 1 (with 4 and 5) over a pairwise cover of all layouts within 8 ranks, over 100 seeded random draws, and over 200
// seeded recipes.
#include "parity/layout_space.h"
#include "parity/parity.h"

namespace trireme::parity {
namespace {

class Cover : public testing::TestWithParam<Choice> {};
INSTANTIATE_TEST_SUITE_P(Pairwise, Cover, testing::ValuesIn(PairwiseCover()),
                         [](const auto& choice) { return NameOf(choice.param); });

TEST_P(Cover, TrainsAsOneRank) { ExpectLaw(ConfigOf(GetParam())); }

class RandomDraw : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Seeded, RandomDraw, testing::Range(1, 101));

TEST_P(RandomDraw, TrainsAsOneRank) {
  const RunConfig config = RandomConfig(static_cast<std::uint64_t>(GetParam()));
  SCOPED_TRACE(ToToml(config));
  ExpectLaw(config);
}

// Recipes of all features together, on few steps.
class RecipeDraw : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Seeded, RecipeDraw, testing::Range(1, 201));

TEST_P(RecipeDraw, TrainsAsOneRank) {
  const RunConfig config = RandomRecipe(static_cast<std::uint64_t>(GetParam()));
  SCOPED_TRACE(ToToml(config));
  ExpectLaw(config);
}

}  // namespace
}  // namespace trireme::parity
