#include "infer/evaluate.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace trireme {
namespace {

// Samples of one length that go through the model together.
struct Group {
  std::int64_t batch = 0;
  std::vector<std::int32_t> tokens, targets, document_starts;
  std::vector<float> weights;

  bool Takes(const Sample& sample, std::int64_t most) const {
    const auto length = static_cast<std::int64_t>(sample.tokens.size()) - 1;
    const bool documents = !sample.document_starts.empty();
    return batch == 0 || (batch < most && length == static_cast<std::int64_t>(tokens.size()) / batch &&
                          documents == !document_starts.empty());
  }
  void Add(const Sample& sample) {
    ++batch;
    tokens.insert(tokens.end(), sample.tokens.begin(), sample.tokens.end() - 1);
    targets.insert(targets.end(), sample.tokens.begin() + 1, sample.tokens.end());
    document_starts.insert(document_starts.end(), sample.document_starts.begin(), sample.document_starts.end());
    if (sample.weights.empty()) {
      weights.resize(tokens.size(), 1.0F);
    } else {
      weights.insert(weights.end(), sample.weights.begin(), sample.weights.end());
    }
  }
};

std::int64_t BytesOf(const std::vector<std::int32_t>& targets, const std::vector<float>& weights,
                     const Tokenizer& tokenizer) {
  std::vector<std::int32_t> counted;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (weights[i] > 0 && !tokenizer.IsSpecial(targets[i])) {
      counted.push_back(targets[i]);
    }
  }
  return static_cast<std::int64_t>(tokenizer.Decode(counted).size());
}

}  // namespace

std::int64_t BytesOfTargets(const std::vector<std::int32_t>& tokens, const std::vector<float>& weights,
                            const Tokenizer& tokenizer) {
  return BytesOf({tokens.begin() + 1, tokens.end()}, weights, tokenizer);
}

double LossReport::perplexity() const { return std::exp(loss); }

double LossReport::bits_per_byte() const {
  return bytes == 0 ? 0 : loss * weight / std::log(2.0) / static_cast<double>(bytes);
}

LossReport EvaluateSamples(InferenceModel& model, std::int64_t count, const std::function<Sample(std::int64_t)>& get,
                           const Tokenizer* tokenizer) {
  Require(count > 0, "there is nothing to evaluate");
  LossReport report;
  double total = 0;
  Group group;
  const auto run = [&] {
    model.RunWhole(group.batch, group.tokens, group.document_starts);
    const std::vector<float> losses = model.Losses(group.targets);
    for (std::size_t i = 0; i < losses.size(); ++i) {
      // A masked target may have any loss, infinity included.
      total += group.weights[i] > 0 ? static_cast<double>(losses[i]) * group.weights[i] : 0.0;
      report.weight += group.weights[i];
    }
    report.samples += group.batch;
    report.bytes += tokenizer == nullptr ? 0 : BytesOf(group.targets, group.weights, *tokenizer);
    group = {};
  };
  for (std::int64_t index = 0; index < count; ++index) {
    const Sample sample = get(index);
    if (!group.Takes(sample, model.options().batch)) {
      run();
    }
    group.Add(sample);
  }
  run();
  Require(report.weight > 0, "every target of the {} samples is masked out", count);
  report.loss = total / report.weight;
  return report;
}

TextWindows::TextWindows(std::vector<std::int32_t> tokens, std::int64_t sequence)
    : tokens_(std::move(tokens)), sequence_(sequence) {
  Require(tokens_.size() >= 2, "a text of {} tokens has nothing to predict: two are the least", tokens_.size());
}

std::int64_t TextWindows::count() const { return CeilDiv(static_cast<std::int64_t>(tokens_.size()) - 1, sequence_); }

Sample TextWindows::Get(std::int64_t index) const {
  const std::int64_t first = index * sequence_;
  const std::int64_t last = std::min(first + sequence_ + 1, static_cast<std::int64_t>(tokens_.size()));
  return {.tokens = {tokens_.begin() + first, tokens_.begin() + last}, .weights = {}, .document_starts = {}};
}

std::vector<Sample> ReadTokenLines(const std::string& path, std::int64_t vocabulary) {
  std::ifstream file(path);
  Require(file.good(), "'{}' cannot be read", path);
  std::vector<Sample> samples;
  std::int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    std::istringstream words(line);
    Sample sample;
    for (std::string word; words >> word;) {
      std::int32_t token = -1;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), token);
      Require(error == std::errc() && end == word.data() + word.size() && token >= 0 && token < vocabulary,
              "'{}' line {}: '{}' is no token of the model, whose vocabulary is {}", path, number, word, vocabulary);
      sample.tokens.push_back(token);
    }
    Require(sample.tokens.size() >= 2, "'{}' line {}: {} tokens have nothing to predict: two are the least", path,
            number, sample.tokens.size());
    samples.push_back(std::move(sample));
  }
  Require(!samples.empty(), "'{}' holds no sample: one a line", path);
  return samples;
}

}  // namespace trireme
