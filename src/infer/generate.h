// Continues prompts token by token. A sequence's tokens depend on its prompt, its number and the seed alone, whatever
// the batch and the layout (up to rounding of the logits).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/tokenizer/tokenizer.h"
#include "infer/inference_model.h"
#include "infer/sampling.h"

namespace trireme {

using TokenList = std::vector<std::int32_t>;

struct GenerateOptions {
  std::int64_t tokens = 0;  // new ones for each prompt, at most
  SamplingOptions sampling;
  std::uint64_t seed = 1;
  TokenList stop;  // a token of these ends its sequence and is not part of it
  // Asked after each token with all new ones of its sequence: true ends it. Equal on every rank.
  std::function<bool(const TokenList&)> ends = {};
  // Tokens below this are chosen from: a model's vocabulary may be larger than its tokenizer's. 0: all of the model's.
  std::int64_t vocabulary = 0;
};

// The tokens of a prompt, with what the tokenizer's files put before a text; never none: an empty prompt becomes the
// end of a document, or a line break where the tokenizer has no such token.
TokenList EncodePrompt(const Tokenizer& tokenizer, const std::string& text);

// What an InferenceModel needs to continue `prompts`. tokens = 0: as many as the model's sequence leaves room for,
// which is then written to it; so it is where learned positions do not reach as far as `tokens`. An Error when the
// longest prompt leaves no room there.
struct GenerationNeed {
  std::span<const TokenList> prompts;
  std::int64_t batch = 8;  // at most, at once
  DType dtype = DType::kFloat32;
};
InferenceOptions PlanGeneration(const ModelConfig& model, const GenerationNeed& need, std::int64_t& tokens);

// Called as each token is chosen: sequences of a batch take turns. log_probability is the model's own.
struct ChosenToken {
  std::size_t prompt = 0;
  std::int32_t token = 0;
  double log_probability = 0;
};
using TokenCallback = std::function<void(const ChosenToken& chosen)>;

// The new tokens of each prompt. Collective over the model's group; `model` was made with PlanGeneration's options.
std::vector<TokenList> Generate(InferenceModel& model, std::span<const TokenList> prompts,
                                const GenerateOptions& options, const TokenCallback& callback = {});

}  // namespace trireme
