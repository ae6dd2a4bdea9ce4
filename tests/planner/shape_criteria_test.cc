#include "planner/queries/shape_criteria.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "message_of.h"
#include "planner/fixtures.h"
#include "planner/queries/shapes.h"

namespace trireme {
namespace {

using test::MessageOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(ShapeCriteria, AreReadInAnyOrder) {
  const ShapeCriteria criteria = ParseCriteria("stages=12+embedding heads=128,64 vocabulary=1024 ratio=90..180.5");
  EXPECT_EQ(criteria.stages, 12);
  EXPECT_TRUE(criteria.with_embedding);
  EXPECT_THAT(HeadSizes(criteria), ElementsAre(64, 128));
  EXPECT_EQ(criteria.vocabulary, 1024);
  EXPECT_EQ(criteria.most_ratio, 180.5);
  EXPECT_EQ(HeadSizes(ParseCriteria("")).size(), 13U);
}

TEST(ShapeCriteria, SayWhatIsWrong) {
  EXPECT_THAT(MessageOf([] { ParseCriteria("ration=1..2"); }), HasSubstr("did you mean 'ratio'"));
  EXPECT_THAT(MessageOf([] { ParseCriteria("ratio=180"); }), HasSubstr("must be a range"));
  EXPECT_THAT(MessageOf([] { ParseCriteria("ratio=180..90"); }), HasSubstr("end comes first"));
  EXPECT_THAT(MessageOf([] { ParseCriteria("heads=64,many"); }), HasSubstr("'many'"));
  EXPECT_THAT(MessageOf([] { ParseCriteria("vocabulary=1000"); }), HasSubstr("multiple of 128"));
  EXPECT_THAT(MessageOf([] { ParseCriteria("stages=0"); }), HasSubstr("from 1 to"));
}

TEST(ShapeCriteria, LayersAreThoseThatStagesDivide) {
  EXPECT_THAT(LayerCounts({}, 71), ElementsAre(70));
  EXPECT_THAT(LayerCounts({.stages = 12}, 70), ElementsAre(60, 72));
  EXPECT_THAT(LayerCounts({.stages = 12, .with_embedding = true}, 70), ElementsAre(70, 82));
  EXPECT_THAT(LayerCounts({.stages = 12}, 5), ElementsAre(12));
}

// Note 004's search: about 180B, a ratio of at most 200, heads of 128, layers for 12 stages.
TEST(ShapeCriteria, EveryProposalMeetsThem) {
  const test::Machine machine("jean-zay-a100", "megatron-ds-2022");
  SearchRequest request = machine.Request(test::Bloom176b(), 384, 2048);
  request.tensor = 4;
  request.pipeline = 12;
  request.recompute = "full";
  const ShapeCriteria criteria = ParseCriteria("ratio=170..210 heads=128 stages=12+embedding vocabulary=1024");
  const std::vector<ShapeProposal> proposals = SearchShapes(request, 176'000'000'000, 20, criteria);
  ASSERT_FALSE(proposals.empty());
  for (const ShapeProposal& one : proposals) {
    EXPECT_EQ(one.model.head_size(), 128);
    EXPECT_EQ((one.model.layers + 2) % 12, 0);
    EXPECT_EQ(one.model.vocabulary % 1024, 0);
    EXPECT_TRUE(criteria.HasRatioOf(one.model)) << one.model.hidden << " " << one.model.layers;
    EXPECT_NEAR(static_cast<double>(one.parameters), 176e9, 0.04 * 176e9);
  }
  EXPECT_THAT(ToText(proposals), HasSubstr("ratio"));
}

}  // namespace
}  // namespace trireme
