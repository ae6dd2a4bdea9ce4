// What a machine cannot run is refused before the run starts, also where there is no GPU to ask.
#include "operate/run_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/durable_file.h"
#include "message_of.h"
#include "run/recipe_keys.h"
#include "scratch_directory.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunConfig OnGpus(const ParallelLayout& layout, const std::string& attention) {
  RunConfig config;
  config.model.family = "llama";
  config.layout = layout;
  config.train.device = "cuda";
  config.train.attention = attention;
  return config;
}

std::string Refusal(const RunConfig& config) {
  return trireme::testing::MessageOf([&] { RequireMachine(config, true, false); });
}

TEST(RunStart, PlainAttentionOnGpusHasAllKeysWhereItsQueriesAre) {
  const ParallelLayout gathered{.context = 2};
  EXPECT_THAT(Refusal(OnGpus(gathered, "plain")),
              HasSubstr("train.attention = 'plain' with layout.context = 2 on train.device = 'cuda'"));
  EXPECT_THAT(Refusal(OnGpus(gathered, "flash")), Not(HasSubstr("plain attention has all keys")));
  EXPECT_THAT(Refusal(OnGpus({.context = 2, .context_kind = ContextKind::kUlysses}, "plain")),
              Not(HasSubstr("plain attention has all keys")));
  RunConfig host = OnGpus(gathered, "plain");
  host.train.device = "cpu";
  EXPECT_THAT(Refusal(host), Not(HasSubstr("plain attention has all keys")));
}

TEST(RunStart, GpusTakeSoManyChunksOfKeys) {
  EXPECT_THAT(Refusal(OnGpus({.context = 8, .context_stripes = 17}, "flash")),
              HasSubstr("256 chunks of keys at most, and these are 272"));
  EXPECT_THAT(Refusal(OnGpus({.context = 8, .context_stripes = 16}, "flash")), Not(HasSubstr("chunks of keys")));
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

}  // namespace
}  // namespace trireme
