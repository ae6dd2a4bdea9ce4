#include "infer/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "infer/small_model.h"

namespace trireme {
namespace {

// A family's small model, trained once for all tests.
const ModelFiles& Files(const std::string& family) {
  static ScratchDirectory folder;
  static std::map<std::string, ModelFiles> all;
  const auto found = all.find(family);
  if (found != all.end()) {
    return found->second;
  }
  const std::string run = folder / family;
  TrainSmallModel(SmallModel(family), run);
  return all.emplace(family, OpenModelFiles(run)).first->second;
}

TokenList RandomTokens(const ModelConfig& model, std::int64_t count, std::uint64_t key) {
  TokenList tokens;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto below = static_cast<std::uint64_t>(model.vocabulary);
    tokens.push_back(static_cast<std::int32_t>(RandomBelow(key, static_cast<std::uint64_t>(i), below)));
  }
  return tokens;
}

// Logits after the last token of `tokens`, by the forward pass over the whole.
std::vector<float> WholeLogits(const ModelFiles& files, const TokenList& tokens, int ranks = 1) {
  std::vector<float> logits;
  const auto count = static_cast<std::int64_t>(tokens.size());
  WithModel(files, {.options = {.rows = count}, .ranks = ranks}, [&](InferenceModel& model, int rank) {
    model.RunWhole(1, tokens);
    const std::vector<float> own = model.Logits(TokenList{static_cast<std::int32_t>(count - 1)});
    if (rank == 0) {
      logits = own;
    }
  });
  return logits;
}

double LargestDifference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  return largest;
}

class EveryFamily : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(EveryFamily, LogitsByTheCacheEqualThoseOfTheWholeForward) {
  const auto [family, ranks] = GetParam();
  const ModelFiles& files = Files(family);
  const TokenList first = RandomTokens(files.model, 11, 5);
  const TokenList second = RandomTokens(files.model, 11, 6);
  constexpr std::int32_t kPrompt = 4;
  // Two sequences side by side; the second is two tokens behind, so that they stand at different positions.
  std::vector<std::vector<float>> by_cache;
  const InferenceOptions options{.batch = 2, .rows = 2 * kPrompt, .capacity = 11};
  WithModel(files, {.options = options, .ranks = ranks}, [&](InferenceModel& model, int rank) {
    TokenList prompts(first.begin(), first.begin() + kPrompt);
    prompts.insert(prompts.end(), {second[0], second[1], 0, 0});
    model.RunCached(prompts, TokenList{0, 0});
    for (std::int32_t i = kPrompt; i < 11; ++i) {
      const auto at = static_cast<std::size_t>(i);
      model.RunCached(TokenList{first[at], second[at - 2]}, TokenList{i, i - 2});
      const std::vector<float> logits = model.Logits(TokenList{0, 1});
      if (rank == 0) {
        by_cache.push_back(logits);
      }
    }
  });
  const auto vocabulary = static_cast<std::ptrdiff_t>(files.model.vocabulary);
  for (std::int64_t i = kPrompt; i < 11; ++i) {
    const std::vector<float>& both = by_cache[static_cast<std::size_t>(i - kPrompt)];
    ASSERT_EQ(both.size(), static_cast<std::size_t>(2 * vocabulary));
    EXPECT_LT(LargestDifference({both.begin(), both.begin() + vocabulary},
                                WholeLogits(files, {first.begin(), first.begin() + i + 1})),
              1e-4)
        << "position " << i;
    EXPECT_LT(LargestDifference({both.begin() + vocabulary, both.end()},
                                WholeLogits(files, {second.begin(), second.begin() + i - 1})),
              1e-4)
        << "position " << i - 2;
  }
}

TEST_P(EveryFamily, TheWholeForwardIsTheSameOnAnyTensorGroup) {
  const auto [family, ranks] = GetParam();
  const ModelFiles& files = Files(family);
  const TokenList tokens = RandomTokens(files.model, 9, 7);
  EXPECT_LT(LargestDifference(WholeLogits(files, tokens, ranks), WholeLogits(files, tokens)), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Inference, EveryFamily,
                         testing::Combine(testing::Values("gpt2", "bloom", "llama"), testing::Values(1, 2)),
                         [](const auto& choice) {
                           return std::get<0>(choice.param) + "Tensor" + std::to_string(std::get<1>(choice.param));
                         });

std::vector<TokenList> Continue(const ModelFiles& files, const std::vector<TokenList>& prompts,
                                const GenerateOptions& options, std::int64_t batch, int ranks = 1) {
  std::vector<TokenList> result;
  std::int64_t tokens = options.tokens;
  const InferenceOptions plan = PlanGeneration(files.model, {.prompts = prompts, .batch = batch}, tokens);
  WithModel(files, {.options = plan, .ranks = ranks}, [&](InferenceModel& model, int rank) {
    std::vector<TokenList> own = Generate(model, prompts, options);
    if (rank == 0) {
      result = std::move(own);
    }
  });
  return result;
}

std::vector<TokenList> SomePrompts(const ModelConfig& model) {
  return {RandomTokens(model, 3, 1), RandomTokens(model, 1, 2), RandomTokens(model, 6, 3), RandomTokens(model, 2, 4),
          RandomTokens(model, 5, 5)};
}

TEST(Generate, TheMostLikelyTokensAreThoseOfTheWholeForward) {
  const ModelFiles& files = Files("gpt2");
  const TokenList prompt = RandomTokens(files.model, 3, 1);
  const std::vector<TokenList> made = Continue(files, {prompt}, {.tokens = 5, .sampling = {.temperature = 0}}, 1);
  TokenList text = prompt;
  for (const std::int32_t token : made.at(0)) {
    const std::vector<float> logits = WholeLogits(files, text);
    EXPECT_FLOAT_EQ(logits[static_cast<std::size_t>(token)], *std::max_element(logits.begin(), logits.end()));
    text.push_back(token);
  }
  EXPECT_EQ(made.at(0).size(), 5U);
}

TEST(Generate, TheBatchDoesNotChangeWhatAPromptBecomes) {
  const ModelFiles& files = Files("llama");
  const std::vector<TokenList> prompts = SomePrompts(files.model);
  const GenerateOptions options{.tokens = 6, .sampling = {.temperature = 0.8, .top_k = 20, .top_p = 0.9}, .seed = 3};
  const std::vector<TokenList> alone = Continue(files, prompts, options, 1);
  EXPECT_EQ(alone, Continue(files, prompts, options, 3));
  EXPECT_EQ(alone, Continue(files, prompts, options, 5, 2));
  GenerateOptions other = options;
  other.seed = 4;
  EXPECT_NE(alone, Continue(files, prompts, other, 5));
}

TEST(Generate, LongPromptsGoThroughInPieces) {
  const ModelFiles& files = Files("bloom");
  const std::vector<TokenList> prompts = {RandomTokens(files.model, 9, 1), RandomTokens(files.model, 4, 2)};
  const GenerateOptions options{.tokens = 3, .sampling = {.temperature = 0}};
  const std::vector<TokenList> whole = Continue(files, prompts, options, 2);
  const InferenceOptions small{.batch = 2, .rows = 4, .capacity = 12};  // two tokens of each prompt at a time
  WithModel(files, {.options = small},
            [&](InferenceModel& model, int) { EXPECT_EQ(Generate(model, prompts, options), whole); });
}

TEST(Generate, StopTokensEndASequenceAndTheCallbackHearsTheRest) {
  const ModelFiles& files = Files("gpt2");
  const std::vector<TokenList> prompts = {RandomTokens(files.model, 3, 1)};
  GenerateOptions options{.tokens = 6, .sampling = {.temperature = 1}};
  const std::vector<TokenList> free = Continue(files, prompts, options, 1);
  options.stop = {free[0][2]};
  TokenList heard;
  std::int64_t tokens = options.tokens;
  const InferenceOptions plan = PlanGeneration(files.model, {.prompts = prompts}, tokens);
  WithModel(files, {.options = plan}, [&](InferenceModel& model, int) {
    const auto made =
        Generate(model, prompts, options, [&](const ChosenToken& chosen) { heard.push_back(chosen.token); });
    EXPECT_EQ(made[0], heard);
  });
  EXPECT_THAT(heard, testing::Not(testing::Contains(free[0][2])));
  EXPECT_LT(heard.size(), 3U);
}

TEST(Generate, ASequenceEndsWhereItsTokensSaySo) {
  const ModelFiles& files = Files("gpt2");
  const std::vector<TokenList> prompts = {RandomTokens(files.model, 3, 1), RandomTokens(files.model, 3, 2)};
  GenerateOptions options{.tokens = 6, .sampling = {.temperature = 1}};
  const std::vector<TokenList> free = Continue(files, prompts, options, 2);
  options.ends = [&](const TokenList& made) { return made.size() == 2 && made[1] == free[0][1]; };
  const std::vector<TokenList> made = Continue(files, prompts, options, 2);
  EXPECT_EQ(made[0], (TokenList{free[0][0], free[0][1]}));
  EXPECT_EQ(made[1].size(), free[0][1] == free[1][1] ? 2U : 6U);
}

TEST(Generate, TokensThatTheTokenizerDoesNotKnowAreNeverChosen) {
  const ModelFiles& files = Files("gpt2");
  const std::vector<TokenList> prompts = SomePrompts(files.model);
  const GenerateOptions options{.tokens = 6, .sampling = {.temperature = 5}, .vocabulary = 7};
  for (const TokenList& made : Continue(files, prompts, options, 5)) {
    EXPECT_EQ(made.size(), 6U);
    EXPECT_THAT(made, testing::Each(testing::Lt(7)));
  }
}

TEST(PlanGeneration, FillsTheSequenceByDefaultAndEndsWhereLearnedPositionsDo) {
  const ModelConfig learned = SmallModel("gpt2").model;
  const std::vector<TokenList> prompts = {TokenList(4, 1), TokenList(9, 1)};
  std::int64_t tokens = 0;
  const InferenceOptions options = PlanGeneration(learned, {.prompts = prompts}, tokens);
  EXPECT_EQ(tokens, 3);
  EXPECT_EQ(options.capacity, 12);
  EXPECT_EQ(options.batch, 2);
  tokens = 4;
  EXPECT_EQ(PlanGeneration(learned, {.prompts = prompts}, tokens).capacity, 12);
  EXPECT_EQ(tokens, 3);
  try {
    PlanGeneration(learned, {.prompts = std::vector<TokenList>{TokenList(12, 1)}}, tokens);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("a prompt of 12 tokens fills the model's sequence of 12"));
  }
  tokens = 4;
  EXPECT_EQ(PlanGeneration(SmallModel("llama").model, {.prompts = prompts}, tokens).capacity, 13);
}

TEST(ModelFiles, ATokenizerIsNeededBeyondBytes) {
  try {
    LoadModelTokenizer(Files("gpt2"), "");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("--tokenizer"));
  }
  EXPECT_THROW(LoadModelTokenizer(Files("gpt2"), "bytes"), Error);  // 256 tokens, the model has 90
  EXPECT_THROW(OpenModelFiles("/nowhere"), Error);
}

}  // namespace
}  // namespace trireme
