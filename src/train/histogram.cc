#include "train/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trireme {
namespace {

constexpr double kFirstEdge = 1e-12;
constexpr double kLastEdge = 1e8;
constexpr double kEdgeGrowth = 1.25;

std::vector<double> MakeEdges() {
  std::vector<double> positive;
  for (double edge = kFirstEdge; edge < kLastEdge; edge *= kEdgeGrowth) {
    positive.push_back(edge);
  }
  std::vector<double> edges;
  for (auto edge = positive.rbegin(); edge != positive.rend(); ++edge) {
    edges.push_back(-*edge);
  }
  edges.insert(edges.end(), positive.begin(), positive.end());
  edges.push_back(std::numeric_limits<double>::max());
  return edges;
}

}  // namespace

const std::vector<double>& Histogram::Edges() {
  static const std::vector<double> kEdges = MakeEdges();
  return kEdges;
}

void Histogram::Add(std::span<const float> values, double factor) {
  const std::vector<double>& edges = Edges();
  for (const float raw : values) {
    const double value = raw * factor;
    if (!std::isfinite(value)) {
      ++others;
      continue;
    }
    least = count == 0 ? value : std::min(least, value);
    most = count == 0 ? value : std::max(most, value);
    ++count;
    sum += value;
    squares += value * value;
    ++counts_[static_cast<std::size_t>(std::upper_bound(edges.begin(), edges.end() - 1, value) - edges.begin())];
  }
}

}  // namespace trireme
