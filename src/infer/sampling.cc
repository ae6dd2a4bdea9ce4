#include "infer/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/error.h"

namespace trireme {

void RequireSensible(const SamplingOptions& options) {
  Require(options.temperature >= 0 && std::isfinite(options.temperature),
          "a temperature of {} makes no sense: 0 takes the most likely token, 1 samples as the model says",
          options.temperature);
  Require(options.top_k >= 0, "top-k = {} must be 0 (all tokens) or more", options.top_k);
  Require(options.min_p >= 0 && options.min_p <= 1, "min-p = {} must be between 0 and 1", options.min_p);
  Require(options.top_p > 0 && options.top_p <= 1, "top-p = {} must be above 0 and at most 1", options.top_p);
}

std::int32_t SampleToken(std::span<const float> logits, const SamplingOptions& options, double uniform) {
  const auto most_likely = std::max_element(logits.begin(), logits.end());
  if (options.temperature == 0 || options.top_k == 1) {
    return static_cast<std::int32_t>(most_likely - logits.begin());
  }
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto before = [&](std::int32_t a, std::int32_t b) {
    const float of_a = logits[static_cast<std::size_t>(a)];
    const float of_b = logits[static_cast<std::size_t>(b)];
    return of_a > of_b || (of_a == of_b && a < b);
  };
  const std::size_t kept =
      options.top_k > 0 ? std::min(order.size(), static_cast<std::size_t>(options.top_k)) : order.size();
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(), before);
  order.resize(kept);
  std::vector<double> weights;
  double total = 0;
  for (const std::int32_t token : order) {
    weights.push_back(std::exp((logits[static_cast<std::size_t>(token)] - *most_likely) / options.temperature));
    total += weights.back();
  }
  while (weights.size() > 1 && weights.back() < options.min_p) {  // the first is 1
    total -= weights.back();
    weights.pop_back();
  }
  double covered = 0;
  std::size_t choices = 0;
  while (choices < weights.size() && (choices == 0 || covered < options.top_p * total)) {
    covered += weights[choices++];
  }
  double left = uniform * covered;
  for (std::size_t i = 0; i < choices; ++i) {
    left -= weights[i];
    if (left < 0) {
      return order[i];
    }
  }
  return order[choices - 1];
}

double LogProbability(std::span<const float> logits, std::int32_t token) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) {
    sum += std::exp(static_cast<double>(logit) - most);
  }
  return static_cast<double>(logits[static_cast<std::size_t>(token)]) - most - std::log(sum);
}

}  // namespace trireme
