// How well a model predicts text: mean loss, perplexity, bits per byte. Collective over the model's group: every rank
// asks for the same samples and gets the same numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/samples/sample_source.h"
#include "data/tokenizer/tokenizer.h"
#include "infer/inference_model.h"

namespace trireme {

struct LossReport {
  std::int64_t samples = 0;
  double weight = 0;       // targets that count
  double loss = 0;         // nats a target
  std::int64_t bytes = 0;  // of text that the targets stand for, special tokens for none; 0: not known
  double perplexity() const;
  // Total bits over bytes; 0 when the bytes are not known.
  double bits_per_byte() const;
};

// Bytes of text that a sample's targets stand for, those that weigh nothing and special tokens left out.
std::int64_t BytesOfTargets(const std::vector<std::int32_t>& tokens, const std::vector<float>& weights,
                            const Tokenizer& tokenizer);

// Samples [0, count) that `get` gives, any thread, each of at most model.options().rows / batch tokens. `tokenizer`
// counts the bytes and may be missing.
LossReport EvaluateSamples(InferenceModel& model, std::int64_t count, const std::function<Sample(std::int64_t)>& get,
                           const Tokenizer* tokenizer);

// A text as samples of at most `sequence` targets: every token but the first is a target once.
class TextWindows {
 public:
  TextWindows(std::vector<std::int32_t> tokens, std::int64_t sequence);
  std::int64_t count() const;
  Sample Get(std::int64_t index) const;

 private:
  std::vector<std::int32_t> tokens_;
  std::int64_t sequence_;
};

// A file of samples as numbers: one a line, two or more token ids with spaces between them. An Error names the line of
// one that is not in [0, vocabulary).
std::vector<Sample> ReadTokenLines(const std::string& path, std::int64_t vocabulary);

}  // namespace trireme
