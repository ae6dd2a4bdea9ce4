// What a machine cannot run is refused before the run starts, also where there is no GPU to ask.
#include "operate/run_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/durable_file.h"
#include "cost/communication_memory.h"
#include "cost/step_cost.h"
#include "message_of.h"
#include "run/recipe_keys.h"
#include "scratch_directory.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

RunConfig OnGpus(const ParallelLayout& layout, AttentionEngine attention) {
  RunConfig config;
  config.model.family = "llama";
  config.layout = layout;
  config.train.device = "cuda";
  config.train.attention = attention;
  return config;
}

std::string Refusal(const RunConfig& config) {
  return test::MessageOf([&] { RequireMachine(config, true, false); });
}

TEST(RunStart, PlainAttentionOnGpusHasAllKeysWhereItsQueriesAre) {
  const ParallelLayout gathered{.context = 2};
  EXPECT_THAT(Refusal(OnGpus(gathered, AttentionEngine::kPlain)),
              HasSubstr("train.attention = 'plain' with layout.context = 2 on train.device = 'cuda'"));
  EXPECT_THAT(Refusal(OnGpus(gathered, AttentionEngine::kFlash)), Not(HasSubstr("plain attention has all keys")));
  EXPECT_THAT(Refusal(OnGpus({.context = 2, .context_kind = ContextKind::kUlysses}, AttentionEngine::kPlain)),
              Not(HasSubstr("plain attention has all keys")));
  RunConfig host = OnGpus(gathered, AttentionEngine::kPlain);
  host.train.device = "cpu";
  EXPECT_THAT(Refusal(host), Not(HasSubstr("plain attention has all keys")));
}

TEST(RunStart, GpusTakeSoManyChunksOfKeys) {
  EXPECT_THAT(Refusal(OnGpus({.context = 8, .context_stripes = 17}, AttentionEngine::kFlash)),
              HasSubstr("256 chunks of keys at most, and these are 272"));
  EXPECT_THAT(Refusal(OnGpus({.context = 8, .context_stripes = 16}, AttentionEngine::kFlash)),
              Not(HasSubstr("chunks of keys")));
}

// A CPU has fp8 for tests, of all products; what a run's folder says stays, and what a recipe says comes first.
TEST(RunStart, Float8ProductsOfARunThatGoesOnAreThoseItBeganWith) {
  const ScratchDirectory folder;
  const auto chosen = [&](const std::vector<std::string>& keys) {
    const Recipe recipe = ParseRecipe("", "test.toml", keys);
    const MemoryChoices choices(recipe, false, folder.path().string());
    std::string products;
    RunThreadRanks(1, {.kind = "cpu"}, [&](RankContext& context) {
      products = choices.ChooseForDevices(recipe.config, context).train.fp8_products;
    });
    return products;
  };
  EXPECT_EQ(chosen({"train.dtype=fp8"}), "all");
  EXPECT_EQ(chosen({"train.dtype=bf16"}), "auto");
  RunConfig began = ParseRecipe("", "test.toml", {"train.dtype=fp8", "train.fp8_products=qkv,ffn_in"}).config;
  ReplaceFile(folder / "run.toml", ToToml(began));
  EXPECT_EQ(chosen({"train.dtype=fp8"}), "qkv,ffn_in");
  EXPECT_EQ(chosen({"train.dtype=fp8", "train.fp8_products=none"}), "none");
  began.train.fp8_products = "auto";
  ReplaceFile(folder / "run.toml", ToToml(began));
  EXPECT_EQ(chosen({"train.dtype=fp8"}), "all");
}

const std::vector<std::string> kFloat8Run = {"train.dtype=fp8",      "model.layers=2",      "model.hidden=64",
                                             "model.heads=4",        "model.vocabulary=64", "model.sequence=64",
                                             "layout.micro_batch=1", "batch.global=8",      "layout.zero=0"};

RunConfig WithProducts(RunConfig config, const std::string& products, int micro_batch) {
  config.train.fp8_products = products;
  config.layout.micro_batch = micro_batch;
  config.layout.recompute = Recompute::kNone;
  return config;
}

std::int64_t Need(const RunConfig& config) {
  const StageOfRun stage(config, 0, config.batch.global);
  return MemoryOfStage(stage.description()).total() + CommunicationOf(stage.description()).total();
}

std::vector<std::string> With(std::vector<std::string> keys, const std::string& more) {
  keys.push_back(more);
  return keys;
}

TEST(RunStart, MemoryIsFittedToTheProductsThatWereChosen) {
  const ScratchDirectory folder;
  const auto none = [](const RunConfig&) { return std::string("none"); };
  const std::vector<std::string> keys = With(kFloat8Run, "layout.micro_batch=4");
  const Recipe recipe = ParseRecipe("", "test.toml", keys);
  const std::int64_t room = Need(WithProducts(recipe.config, "all", 4));
  ASSERT_GT(Need(WithProducts(recipe.config, "none", 4)), room);
  const RunConfig chosen = MemoryChoices(recipe, false, folder.path().string()).Choose(recipe.config, room, none);
  EXPECT_EQ(chosen.train.fp8_products, "none");
  EXPECT_NE(chosen.layout.recompute, Recompute::kNone);
  EXPECT_LE(Need(chosen), room);
  EXPECT_TRUE(FitsDevices(chosen, room));
  EXPECT_FALSE(FitsDevices(chosen, Need(chosen) - 1));

  // Recomputation that the recipe gives cannot make room for them: products in fp8 take less.
  const Recipe fixed = ParseRecipe("", "test.toml", With(keys, "layout.recompute=none"));
  const MemoryChoices as_given(fixed, false, folder.path().string());
  EXPECT_EQ(as_given.Choose(fixed.config, room, none).train.fp8_products, "all");
  EXPECT_EQ(as_given.Choose(fixed.config, Need(WithProducts(fixed.config, "none", 4)), none).train.fp8_products,
            "none");
  EXPECT_EQ(as_given.Choose(fixed.config, 1, none).train.fp8_products, "none") << "neither fits";
  EXPECT_EQ(as_given.Choose(fixed.config, 0, none).train.fp8_products, "none") << "the room is not known";

  // What a folder says of a run in bf16 is no plan of these products.
  const RunConfig began = ParseRecipe("", "test.toml", With(keys, "train.dtype=bf16")).config;
  ReplaceFile(folder / "run.toml", ToToml(began));
  EXPECT_LE(Need(MemoryChoices(recipe, false, folder.path().string()).Choose(recipe.config, room, none)), room);
}

TEST(RunStart, ProductsAreChosenForTheMicroBatchThatFitsWithThem) {
  const ScratchDirectory folder;
  const Recipe recipe = ParseRecipe("", "test.toml", kFloat8Run);
  const MemoryChoices fits(recipe, true, folder.path().string());
  const std::int64_t room = Need(WithProducts(recipe.config, "all", 4));
  ASSERT_GT(Need(WithProducts(recipe.config, "none", 4)), room);
  ASSERT_GT(Need(WithProducts(recipe.config, "ffn_in", 4)), room);
  std::vector<int> asked;
  const auto smaller_in = [&](const std::string& products) {
    return [&asked, products](const RunConfig& fitted) {
      asked.push_back(fitted.layout.micro_batch);
      return fitted.layout.micro_batch >= 4 ? "none" : products;
    };
  };
  RunConfig chosen = fits.Choose(recipe.config, room, smaller_in("ffn_in"));
  EXPECT_THAT(asked, ElementsAre(4, 2));
  EXPECT_EQ(chosen.layout.micro_batch, 2);
  EXPECT_EQ(chosen.train.fp8_products, "ffn_in");

  // Each of two micro batches asks for the products with which the other fits: the plan is that of the last choice.
  asked.clear();
  chosen = fits.Choose(recipe.config, room, smaller_in("all"));
  EXPECT_THAT(asked, ElementsAre(4, 2, 4, 2));
  EXPECT_EQ(chosen.train.fp8_products, "all");
  EXPECT_LE(Need(chosen), room);
}

// As after a resume in which one rank's machine sees the folder and another's does not.
TEST(RunStart, EveryRankFollowsTheChoiceOfTheFirstWhateverItsFolderSays) {
  const ScratchDirectory began;
  const ScratchDirectory empty;
  const Recipe recipe = ParseRecipe("", "test.toml", With(kFloat8Run, "layout.data=2"));
  RunConfig recorded = recipe.config;
  recorded.train.fp8_products = "qkv,ffn_in";
  recorded.layout.recompute = Recompute::kFull;
  recorded.layout.micro_batch = 2;
  ReplaceFile(began / "run.toml", ToToml(recorded));
  const MemoryChoices finds(recipe, true, began.path().string());
  const MemoryChoices misses(recipe, true, empty.path().string());
  const auto chosen = [&](const MemoryChoices& first, const MemoryChoices& second) {
    std::vector<RunConfig> by_rank(2);
    RunThreadRanks(2, {.kind = "cpu"}, [&](RankContext& context) {
      const int rank = context.world.rank();
      by_rank[static_cast<std::size_t>(rank)] = (rank == 0 ? first : second).ChooseForDevices(recipe.config, context);
    });
    EXPECT_EQ(ToToml(by_rank[0]), ToToml(by_rank[1]));
    return by_rank[1];
  };
  EXPECT_EQ(ToToml(chosen(finds, misses)), ToToml(recorded));
  EXPECT_EQ(chosen(misses, finds).train.fp8_products, "all");
  EXPECT_EQ(chosen(misses, finds).layout.recompute, Recompute::kNone);
}

}  // namespace
}  // namespace trireme
