#include "planner/validation/scores.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trireme {
namespace {

std::vector<double> Ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t last = first;
    while (last + 1 < order.size() && values[order[last + 1]] == values[order[first]]) {
      ++last;
    }
    for (std::size_t i = first; i <= last; ++i) {
      ranks[order[i]] = static_cast<double>(first + last) / 2;
    }
    first = last + 1;
  }
  return ranks;
}

int Sign(double value) { return value > 0 ? 1 : (value < 0 ? -1 : 0); }

}  // namespace

double Mean(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double Median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double Spearman(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> ranks_a = Ranks(a);
  const std::vector<double> ranks_b = Ranks(b);
  const double mean_a = Mean(ranks_a);
  const double mean_b = Mean(ranks_b);
  double both = 0;
  double square_a = 0;
  double square_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    both += (ranks_a[i] - mean_a) * (ranks_b[i] - mean_b);
    square_a += (ranks_a[i] - mean_a) * (ranks_a[i] - mean_a);
    square_b += (ranks_b[i] - mean_b) * (ranks_b[i] - mean_b);
  }
  return square_a * square_b > 0 ? both / std::sqrt(square_a * square_b) : 0;
}

double Kendall(const std::vector<double>& a, const std::vector<double>& b) {
  double both = 0;
  double pairs_a = 0;
  double pairs_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const int sign_a = Sign(a[i] - a[j]);
      const int sign_b = Sign(b[i] - b[j]);
      both += sign_a * sign_b;
      pairs_a += sign_a * sign_a;
      pairs_b += sign_b * sign_b;
    }
  }
  return pairs_a * pairs_b > 0 ? both / std::sqrt(pairs_a * pairs_b) : 0;
}

std::vector<double> PairedResiduals(const std::vector<double>& predicted, const std::vector<double>& measured) {
  std::vector<double> residuals;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      residuals.push_back(std::abs(std::log(predicted[i] / measured[i]) - std::log(predicted[k] / measured[k])));
    }
  }
  return residuals;
}

double Regret(const std::vector<double>& predicted, const std::vector<double>& measured) {
  if (predicted.empty()) {
    return 0;
  }
  const auto choice = std::min_element(predicted.begin(), predicted.end()) - predicted.begin();
  return measured[static_cast<std::size_t>(choice)] / *std::min_element(measured.begin(), measured.end()) - 1;
}

}  // namespace trireme
