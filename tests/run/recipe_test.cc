#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "damaged.h"
#include "message_of.h"
#include "run/recipe_keys.h"
#include "run/run_config.h"

namespace trireme {
namespace {

using testing::HasSubstr;

const std::string kModels = TRIREME_SOURCE_DIR "/models";

// The recipe of the documentation.
constexpr const char* kWhole = R"([model]
family = "bloom"
layers = 24
hidden = 1024
heads = 16
vocabulary = 50304
sequence = 1024
[layout]
tensor = 2
context = 1
context_kind = "ring"
pipeline = 2
data = 2
zero = 1
schedule = "1f1b"
chunks = 1
partition = "uniform"
sequence_parallel = true
recompute = "selective"
micro_batch = 4
offload = "none"
[batch]
global = 512
ramp_up = { start = 32, increment = 32, samples = 100_000 }
[optimizer]
name = "adamw"
learning_rate = 3e-4
weight_decay = 0.1
clip = 1.0
schedule = { kind = "cosine", warmup_samples = 10_000, decay_samples = 1_000_000, final = 0.1 }
[train]
dtype = "bf16"
seed = 1
steps = 1000
device = "auto"
attention = "flash"
deterministic = false
[data]
source = "corpus.bin"
[checkpoint]
every = 100
keep = 3
[validation]
every = 100
samples = 512
)";

RunConfig Parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return ParseRecipe(text, "test.toml", overrides, {kModels}).config;
}

std::string ParseError(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return test::MessageOf([&] { Parse(text, overrides); });
}

TEST(Recipe, ReadsEveryKeyOfTheDocumentation) {
  const RunConfig config = Parse(kWhole);
  EXPECT_EQ(config.model.family, "bloom");
  EXPECT_EQ(config.model.ffn, 4096);
  EXPECT_EQ(config.layout.tensor, 2);
  EXPECT_EQ(config.layout.recompute, Recompute::kSelective);
  EXPECT_TRUE(config.layout.sequence_parallel);
  EXPECT_EQ(config.batch.ramp_start, 32);
  EXPECT_EQ(config.batch.ramp_samples, 100'000);
  EXPECT_EQ(config.optimizer.schedule, RateSchedule::kCosine);
  EXPECT_EQ(config.optimizer.decay_samples, 1'000'000);
  EXPECT_DOUBLE_EQ(config.optimizer.learning_rate, 3e-4);
  EXPECT_EQ(config.data.source, "corpus.bin");
  EXPECT_EQ(config.validation.samples, 512);
  Validate(config, 8);
}

TEST(Recipe, AnEmptyOneIsAllDefaults) {
  const Recipe recipe = ParseRecipe("", "empty", {});
  RunConfig expected;
  expected.model = Completed(expected.model);
  EXPECT_EQ(recipe.config, expected);
  for (const RecipeKey& key : RecipeKeys()) {
    EXPECT_EQ(recipe.origins.count(key.name), 1U) << key.name;
  }
  EXPECT_EQ(recipe.origins.at("layout.tensor"), "default");
}

TEST(Recipe, KnowsWhereEachValueCameFrom) {
  const Recipe recipe = ParseRecipe("[layout]\ntensor = 2\n\ndata = 2", "r.toml", {"layout.data=4"}, {kModels});
  EXPECT_EQ(recipe.origins.at("layout.tensor"), "recipe line 2");
  EXPECT_EQ(recipe.origins.at("layout.data"), "--set");
  EXPECT_EQ(recipe.origins.at("model.ffn"), "family gpt2");
  EXPECT_EQ(recipe.config.layout.data, 4);
}

TEST(Recipe, SpellingsOfATableAreEqual) {
  const RunConfig inline_table = Parse("optimizer.schedule = { kind = 'linear', warmup_samples = 5 }");
  EXPECT_EQ(Parse("[optimizer]\nschedule.kind = 'linear'\nschedule.warmup_samples = 5"), inline_table);
  EXPECT_EQ(Parse("[optimizer.schedule]\nkind = 'linear'\nwarmup_samples = 5"), inline_table);
  EXPECT_EQ(Parse("", {"optimizer.schedule={kind='linear', warmup_samples=5}"}), inline_table);
  EXPECT_EQ(Parse("", {"optimizer.schedule=linear", "optimizer.schedule.warmup_samples=5"}), inline_table);
  EXPECT_EQ(Parse("[optimizer]\nschedule = 'linear'", {"optimizer.schedule.warmup_samples=5"}), inline_table);
}

// Runs of an earlier version go on.
TEST(Recipe, KeysOfEarlierVersionsAreUnderstood) {
  EXPECT_EQ(Parse("layout.reduce_bf16 = true"), Parse("layout.reduce = 'bf16'"));
  EXPECT_EQ(Parse("layout.reduce_bf16 = false"), Parse(""));
  EXPECT_THROW(Parse("layout.reduce_bf16 = 3"), Error);
}

TEST(Recipe, PartitionAndSourceMayBeLists) {
  EXPECT_EQ(Parse("layout.partition = [7, 7, 6]").layout.partition, "7,7,6");
  EXPECT_EQ(Parse("", {"layout.partition=[7,7,6]"}).layout.partition, "7,7,6");
  EXPECT_EQ(Parse("", {"layout.partition=7,7,6"}).layout.partition, "7,7,6");
  EXPECT_EQ(Parse("data.source = [0.3, 'a.bin', 0.7, 'b.bin']").data.source, "0.3 a.bin 0.7 b.bin");
  EXPECT_THAT(ParseError("layout.partition = [7, 'x']"), HasSubstr("whole numbers"));
  EXPECT_THAT(ParseError("layout.partition = []"), HasSubstr("empty list"));
  EXPECT_THAT(ParseError("layout.tensor = [1]"), HasSubstr("not a list"));
  for (const char* list : {"['a.bin', 0.3]", "[0.3, 'a.bin', 0.7]", "[1, 2]", "['a.bin', 'b.bin']"}) {
    EXPECT_THAT(ParseError(std::string("data.source = ") + list), HasSubstr("weights and sources in turn")) << list;
  }
  EXPECT_THAT(ParseError("data.source = [0.3, 'a.bin', -1, 'b.bin']"), HasSubstr("the weight -1"));
  EXPECT_THAT(ParseError("data.source = [0.3, 'my data.bin', 1, 'b.bin']"), HasSubstr("'my data.bin'"));
}

TEST(Recipe, OverridesTakeBareWordsAndTomlValues) {
  const RunConfig config =
      Parse("", {"layout.schedule=zero_bubble", "train.dtype=bf16", "train.seed=7", "optimizer.learning_rate=1",
                 "layout.sequence_parallel=true", "data.source=build/corpus/sample.txt", "layout.recompute=\"full\""});
  EXPECT_EQ(config.layout.schedule, "zero_bubble");
  EXPECT_EQ(config.train.seed, 7);
  EXPECT_DOUBLE_EQ(config.optimizer.learning_rate, 1.0);
  EXPECT_TRUE(config.layout.sequence_parallel);
  EXPECT_EQ(config.data.source, "build/corpus/sample.txt");
  EXPECT_EQ(config.layout.recompute, Recompute::kFull);
  EXPECT_EQ(Parse("", {"data.source=2024"}).data.source, "2024");
  EXPECT_EQ(Parse("", {"train.tokens=1e9"}).train.tokens, 1'000'000'000);
}

TEST(Recipe, TheLastLengthGivenCounts) {
  const RunConfig config = Parse("train.tokens = 1000000", {"train.steps=3"});
  EXPECT_EQ(config.train.tokens, 0);
  EXPECT_EQ(TotalSteps(config), 3);
}

TEST(Recipe, RecomputationIsAutomaticUnlessTold) {
  const auto is_automatic = [](const Recipe& recipe) {
    return recipe.origins.at("layout.recompute") == kRecomputeAutomatic;
  };
  for (const char* text : {"", "layout.recompute = 'auto'"}) {
    const Recipe recipe = ParseRecipe(text, "r", {});
    EXPECT_TRUE(is_automatic(recipe)) << text;
    EXPECT_EQ(recipe.config.layout.recompute, Recompute::kNone) << text;
    EXPECT_THAT(recipe.origins.at("layout.recompute"), HasSubstr("auto")) << text;
    // What is written down is a decision: a checkpoint goes on with it.
    EXPECT_FALSE(is_automatic(ParseRecipe(ToToml(recipe.config), "r", {}))) << text;
  }
  EXPECT_FALSE(is_automatic(ParseRecipe("layout.recompute = 'none'", "r", {})));
  EXPECT_TRUE(is_automatic(ParseRecipe("layout.recompute = 'full'", "r", {"layout.recompute=auto"})));
  EXPECT_EQ(ParseRecipe("layout.recompute = 'full'", "r", {"layout.recompute=auto"}).config.layout.recompute,
            Recompute::kNone);
  EXPECT_THAT(DescribeKeys(), HasSubstr("layout.recompute                   \"auto\""));
}

TEST(Recipe, APresetIsTheGroundForOtherKeys) {
  const Recipe recipe = ParseRecipe("[model]\nlayers = 3\npreset = 'gpt2-124m'", "r", {"model.heads=6"}, {kModels});
  EXPECT_EQ(recipe.config.model.layers, 3);
  EXPECT_EQ(recipe.config.model.hidden, 768);
  EXPECT_EQ(recipe.config.model.heads, 6);
  EXPECT_EQ(recipe.origins.at("model.hidden"), "preset gpt2-124m");
  EXPECT_THAT(ParseError("model.preset = 'gpt2-125m'"), HasSubstr("did you mean 'gpt2-124m'?"));
  EXPECT_THAT(ParseError("model.preset = '../recipes/quickstart'"),
              HasSubstr("'../recipes/quickstart' does not exist"));
  EXPECT_THAT(ParseError("model.preset = 3"), HasSubstr("model.preset must be the name"));
}

TEST(Recipe, AModelToGoOnFromIsTheGroundForOtherKeys) {
  ModelConfig there{.family = "llama", .layers = 3, .hidden = 96, .heads = 6, .kv_heads = 2, .ffn = 100};
  there.sequence = 4096;
  there = Completed(there);
  std::string asked;
  const RecipeContext context{.read_model = [&](const std::string& path) {
    asked = path;
    return there;
  }};
  const auto parse = [&](const std::string& text, const std::vector<std::string>& overrides = {}) {
    return ParseRecipe(text, "r", overrides, context);
  };
  const Recipe recipe = parse("model.from = 'down/llama'\nmodel.sequence = 128\nmodel.dropout = 0.1");
  EXPECT_EQ(asked, "down/llama");
  EXPECT_EQ(recipe.config.model_from, "down/llama");
  EXPECT_EQ(recipe.config.model.kv_heads, 2);
  EXPECT_EQ(recipe.config.model.sequence, 128);
  EXPECT_EQ(recipe.origins.at("model.hidden"), "model.from");
  EXPECT_EQ(recipe.origins.at("model.sequence"), "recipe line 2");
  // What a run writes down reads back, with the model there and without.
  EXPECT_EQ(parse(ToToml(recipe.config)).config, recipe.config);
  EXPECT_EQ(ParseRecipe(ToToml(recipe.config), "r", {}).config, recipe.config);
  EXPECT_EQ(parse("model.from = 'down/llama'", {"model.from=\"\""}).config.model.family, "gpt2");

  const auto message = [&](const std::string& text) {
    try {
      parse("model.from = 'down/llama'\n" + text);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message("model.layers = 4"),
            "r: model.layers = 4 (recipe line 2), but the model of model.from = 'down/llama' has 3; leave the key out");
  EXPECT_THAT(message("model.vocabulary = 300"), HasSubstr("model.vocabulary = 300"));
  EXPECT_THAT(message("model.family = 'gpt2'"), HasSubstr("model.family"));
  EXPECT_THAT(message("model.tie_embeddings = true"), HasSubstr("model.tie_embeddings"));
  EXPECT_THAT(message("model.preset = 'gpt2-124m'"), HasSubstr("keep one"));
  there = Completed(ModelConfig{.family = "gpt2", .sequence = 64});
  EXPECT_THAT(message("model.sequence = 65"), HasSubstr("64 positions"));
  EXPECT_EQ(message("model.sequence = 63"), "");
}

TEST(Recipe, UnknownKeysOfferTheNearest) {
  EXPECT_EQ(ParseError("[layout]\ntensr = 4"),
            "test.toml line 2: unknown key 'layout.tensr' (did you mean 'layout.tensor'?)");
  EXPECT_THAT(ParseError("", {"layout.tensr=4"}), HasSubstr("did you mean 'layout.tensor'?"));
  EXPECT_THAT(ParseError("", {"tensor=4"}), HasSubstr("did you mean 'layout.tensor'?"));
  EXPECT_THAT(ParseError("[layuot]\nx = 1"), HasSubstr("unknown table 'layuot' (did you mean 'layout'?)"));
  EXPECT_THAT(ParseError("optimizer.schedule.warmup = 5"), HasSubstr("'optimizer.schedule.warmup_samples'?"));
  EXPECT_THAT(ParseError("train.learning_rate = 5"), HasSubstr("did you mean 'optimizer.learning_rate'?"));
  EXPECT_THAT(ParseError("batch = 5"), HasSubstr("batch is a table"));
  EXPECT_THAT(ParseError("batch.ramp_up = 5"), HasSubstr("its keys are start, increment, samples"));
  EXPECT_THAT(ParseError("layout.tensor.x = 5"), HasSubstr("takes a value, not a table"));
}

TEST(Recipe, WrongTypesAndAbsurdNumbersNameTheValueAndWhatWorks) {
  EXPECT_EQ(ParseError("model.layers = 1e18"),
            "test.toml line 1: model.layers = 1e+18 must be between 1 and 10000; the nearest that works is 10000");
  EXPECT_THAT(ParseError("model.layers = -3"), HasSubstr("nearest that works is 1"));
  EXPECT_THAT(ParseError("model.layers = nan"), HasSubstr("model.layers = nan"));
  EXPECT_THAT(ParseError("optimizer.learning_rate = nan"), HasSubstr("optimizer.learning_rate = nan"));
  EXPECT_THAT(ParseError("optimizer.learning_rate = -inf"), HasSubstr("-inf"));
  EXPECT_THAT(ParseError("model.layers = 2.5"), HasSubstr("must be a whole number, such as 2"));
  EXPECT_THAT(ParseError("model.layers = 'many'"), HasSubstr("model.layers = \"many\" must be a whole number"));
  EXPECT_THAT(ParseError("model.layers = 2024-01-01"), HasSubstr("date"));
  EXPECT_THAT(ParseError("layout.sequence_parallel = 1"), HasSubstr("must be true or false"));
  EXPECT_THAT(ParseError("layout.schedule = 1"), HasSubstr("must be text"));
  EXPECT_THAT(ParseError("layout.recompute = 'selectve'"), HasSubstr("did you mean 'selective'?"));
  EXPECT_THAT(ParseError("train.dtype = 'bf61'"), HasSubstr("did you mean 'bf16'?"));
  EXPECT_THAT(ParseError("model.heads = 5"), HasSubstr("does not divide model.hidden"));
}

TEST(Recipe, MalformedTextNamesItsLine) {
  EXPECT_THAT(ParseError("[model]\nlayers = \n"), HasSubstr("test.toml line 2"));
  EXPECT_THAT(ParseError("[model]\nlayers = 2\nlayers = 3"), HasSubstr("line 3"));
  EXPECT_THAT(ParseError(std::string(2000, '[')), HasSubstr("test.toml line 1"));
  EXPECT_THAT(ParseError("", {"layout.tensor"}), HasSubstr("should be key=value"));
  EXPECT_THAT(ParseError("", {"=4"}), HasSubstr("should be key=value"));
  EXPECT_THAT(ParseError("", {"layout.tensor="}), HasSubstr("the value is empty"));
  EXPECT_THAT(ParseError("", {"layout.tensor=1\nmodel.layers=9"}), HasSubstr("more than one line"));
}

TEST(Recipe, MissingFilesAreNamed) {
  try {
    LoadRecipe("no/such/recipe.toml", {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "recipe 'no/such/recipe.toml' does not exist");
  }
  EXPECT_THROW(LoadRecipe(std::filesystem::temp_directory_path().string(), {}), Error);
}

TEST(Recipe, TomlIsReadBackToAnEqualConfig) {
  for (const std::string& text :
       {std::string(kWhole), std::string(), std::string("model.family = 'llama'\nmodel.kv_heads = 2"),
        std::string("layout.partition = [1, 1]\ndata.source = 'a \"b\" \\ c.txt'\n"
                    "optimizer.epsilon = 1.2345678901234567e-9\nmodel.tie_embeddings = false")}) {
    const RunConfig config = Parse(text);
    EXPECT_EQ(Parse(ToToml(config)), config) << ToToml(config);
  }
}

TEST(Recipe, FlattenListsEveryKeyOnce) {
  const std::vector<KeyValue> values = Flatten(Parse(kWhole));
  ASSERT_EQ(values.size(), RecipeKeys().size());
  EXPECT_EQ(values[0].key, "model.family");
  EXPECT_EQ(values[0].value, "\"bloom\"");
  for (const RecipeKey& key : RecipeKeys()) {
    EXPECT_THAT(DescribeKeys(), HasSubstr(key.name));
  }
}

// Damage of any kind must end in a config or an Error.
TEST(Recipe, SurvivesDamage) {
  const std::string whole = kWhole;
  for (std::uint64_t draw = 0; draw < 1500; ++draw) {
    const std::string text = Damaged(whole, draw);
    try {
      Validate(Parse(text), 0);
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace trireme
