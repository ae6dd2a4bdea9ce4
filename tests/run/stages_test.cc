#include "run/stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "message_of.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Stages, TheRecipeItselfIsTheLast) {
  const std::vector<RunStage> none = ParseStages("");
  ASSERT_EQ(none.size(), 1U);
  EXPECT_EQ(none[0].until, 0);
  EXPECT_TRUE(none[0].settings.empty());

  const std::vector<RunStage> stages =
      ParseStages("256: model.sequence=32, batch.global = 8; 1024: layout.micro_batch=2 ;");
  ASSERT_EQ(stages.size(), 3U);
  EXPECT_EQ(stages[0].until, 256);
  EXPECT_THAT(stages[0].settings, ElementsAre("model.sequence=32", "batch.global = 8"));
  EXPECT_EQ(stages[1].until, 1024);
  EXPECT_THAT(stages[1].settings, ElementsAre("layout.micro_batch=2"));
  EXPECT_EQ(stages[2].until, 0);
}

TEST(Stages, SayWhatIsWrong) {
  const auto message = [](const char* text) { return test::MessageOf([&] { ParseStages(text); }); };
  EXPECT_THAT(message("batch.global=8"), HasSubstr("'batch.global=8'"));
  EXPECT_THAT(message("0: batch.global=8"), HasSubstr("is no stage"));
  EXPECT_THAT(message("12x: batch.global=8"), HasSubstr("is no stage"));
  EXPECT_THAT(message("64: batch.global=8; 64: batch.global=16"),
              HasSubstr("not after the end of the one before it, 64"));
  EXPECT_THAT(message("64: model.hidden=8"), HasSubstr("'model.hidden' may not change"));
  EXPECT_THAT(message("64: batch.global"), HasSubstr("'batch.global' may not change"));
}

RunConfig Recipe() {
  RunConfig config;
  config.model.family = "llama";
  config.model = Completed(config.model);
  config.train.samples = 100;
  return config;
}

TEST(Stages, AreFoundBySamples) {
  const std::vector<RunStage> stages = ParseStages("64: batch.global=8; 128: batch.global=16");
  EXPECT_EQ(StageAt(stages, 0), 0U);
  EXPECT_EQ(StageAt(stages, 63), 0U);
  EXPECT_EQ(StageAt(stages, 64), 1U);
  EXPECT_EQ(StageAt(stages, 128), 2U);
  EXPECT_EQ(StageAt(stages, 1000), 2U);
}

TEST(Stages, FitTogether) {
  const std::vector<RunStage> stages = ParseStages("64: model.sequence=32");
  const auto message = [&](const RunConfig& first, const RunConfig& last) {
    return test::MessageOf([&] { RequireStages(stages, {first, last}); });
  };
  RunConfig shorter = Recipe();
  shorter.model.sequence /= 2;
  EXPECT_EQ(message(shorter, Recipe()), "");

  RunConfig tokens = Recipe();
  tokens.train.samples = 0;
  tokens.train.tokens = 1000;
  EXPECT_THAT(message(shorter, tokens), HasSubstr("not as train.tokens = 1000"));
  RunConfig brief = Recipe();
  brief.train.samples = 64;
  EXPECT_THAT(message(shorter, brief), HasSubstr("the run ends at 64"));
  RunConfig ramp = Recipe();
  ramp.batch.ramp_start = 4;
  EXPECT_THAT(message(shorter, ramp), HasSubstr("batch.ramp_up"));
  RunConfig more = Recipe();
  more.layout.data = 2;
  EXPECT_EQ(message(more, Recipe()), "");
  RunConfig learned = Recipe();
  learned.model.family = "gpt2";
  learned.model = Completed(learned.model);
  RunConfig half = learned;
  half.model.sequence /= 2;
  EXPECT_THAT(message(half, learned), HasSubstr("'gpt2' learns a vector for each position"));
}

}  // namespace
}  // namespace trireme
