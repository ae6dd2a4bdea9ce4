// Choosing the next token from its logits: a pure function of them and of one random number.
#pragma once

#include <cstdint>
#include <span>

namespace trireme {

struct SamplingOptions {
  double temperature = 1;  // 0: the most likely token
  std::int64_t top_k = 0;  // of the most likely tokens only; 0: of all
  double min_p = 0;        // of tokens at least this share as likely as the most likely one
  double top_p = 1;        // of the smallest set of most likely tokens that has this probability
};

// An Error names a value out of range.
void RequireSensible(const SamplingOptions& options);

// `uniform` in [0, 1). Equally likely tokens rank by their number.
std::int32_t SampleToken(std::span<const float> logits, const SamplingOptions& options, double uniform);

// log p(token) as the model says, before any of the options.
double LogProbability(std::span<const float> logits, std::int32_t token);

}  // namespace trireme
