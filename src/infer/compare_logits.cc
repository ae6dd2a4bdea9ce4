#include "infer/compare_logits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "infer/inference_model.h"
#include "infer/model_files.h"

namespace trireme {
namespace {

std::vector<float> LogitsOf(const ModelFiles& files, const std::vector<std::int32_t>& tokens) {
  const auto rows = static_cast<std::int64_t>(tokens.size());
  std::vector<float> logits;
  RunThreadRanks(1, {.kind = "cpu"}, [&](RankContext& context) {
    InferenceModel model(files.model, files.weights, context, {.batch = rows, .rows = rows});
    model.RunWhole(1, tokens);
    std::vector<std::int32_t> all(tokens.size());
    std::iota(all.begin(), all.end(), 0);
    logits = model.Logits(all);
  });
  return logits;
}

}  // namespace

LogitComparison CompareLogits(const std::string& first, const std::string& second, std::int64_t tokens,
                              std::uint64_t seed) {
  const ModelFiles one = OpenModelFiles(first);
  const ModelFiles other = OpenModelFiles(second);
  Require(one.model.vocabulary == other.model.vocabulary, "'{}' has a vocabulary of {}, '{}' of {}", first,
          one.model.vocabulary, second, other.model.vocabulary);
  const std::int64_t count = std::min({tokens, one.model.sequence, other.model.sequence});
  std::vector<std::int32_t> drawn;
  for (std::int64_t i = 0; i < count; ++i) {
    const double place = RandomUniform(seed, static_cast<std::uint64_t>(i));
    drawn.push_back(static_cast<std::int32_t>(place * static_cast<double>(one.model.vocabulary)));
  }
  const std::vector<float> a = LogitsOf(one, drawn);
  const std::vector<float> b = LogitsOf(other, drawn);
  LogitComparison comparison{.tokens = count};
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    comparison.largest_difference = std::isnan(difference) ? std::numeric_limits<double>::infinity()
                                                           : std::max(comparison.largest_difference, difference);
    comparison.largest_logit = std::max(comparison.largest_logit, std::abs(static_cast<double>(a[i])));
  }
  return comparison;
}

}  // namespace trireme
