#include "planner/validation/scores.h"

#include <gtest/gtest.h>

#include <cmath>

#include "planner/validation/least_squares.h"

namespace trireme {
namespace {

TEST(Scores, RankCorrelations) {
  EXPECT_DOUBLE_EQ(Spearman({1, 2, 3, 4}, {10, 20, 30, 40}), 1);
  EXPECT_DOUBLE_EQ(Spearman({1, 2, 3, 4}, {4, 3, 2, 1}), -1);
  EXPECT_NEAR(Spearman({1, 2, 3, 4, 5}, {2, 1, 4, 3, 5}), 0.8, 1e-12);
  EXPECT_DOUBLE_EQ(Spearman({1, 1, 1}, {1, 2, 3}), 0);
  EXPECT_NEAR(Kendall({1, 2, 3, 4, 5}, {2, 1, 4, 3, 5}), 0.6, 1e-12);
  EXPECT_NEAR(Spearman({1, 2, 2, 4}, {1, 2, 3, 4}), 0.9486832980505138, 1e-12) << "ties share their mean rank";
}

TEST(Scores, RegretIsWhatTheFirstChoiceCosts) {
  EXPECT_NEAR(Regret({3, 1, 2}, {100, 110, 105}), 0.1, 1e-12);
  EXPECT_DOUBLE_EQ(Regret({1, 2}, {5, 6}), 0);
  EXPECT_DOUBLE_EQ(Median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(Median({4, 1, 2, 3}), 2.5);
}

TEST(LeastSquares, FindsTwoNumbersThroughAnOutlier) {
  // y = a t + b; one measurement is off by half.
  const std::vector<double> t = {1, 2, 4, 8, 16, 32};
  std::vector<double> y;
  for (const double at : t) {
    y.push_back(3 * at + 5);
  }
  y[3] *= 1.5;
  LeastSquares problem{.deviations = {2, 2}, .noise = 0.01, .huber = 0.01, .iterations = 50};
  problem.residuals = [&](const std::vector<double>& x) {
    std::vector<double> residuals;
    for (std::size_t i = 0; i < t.size(); ++i) {
      residuals.push_back(std::log((std::exp(x[0]) * t[i] + std::exp(x[1])) / y[i]));
    }
    return residuals;
  };
  const LeastSquaresFit fit = Solve(problem);
  EXPECT_NEAR(std::exp(fit.x[0]), 3, 0.15);
  EXPECT_NEAR(std::exp(fit.x[1]), 5, 0.25);
}

TEST(LeastSquares, WithoutEvidenceNumbersStayAtTheirStart) {
  LeastSquares problem{.deviations = {0.1, 0.1}};
  problem.residuals = [](const std::vector<double>& x) { return std::vector<double>{x[0] - 0.05}; };
  const LeastSquaresFit fit = Solve(problem);
  EXPECT_NEAR(fit.x[1], 0, 1e-9);
  EXPECT_GT(fit.x[0], 0.03);
}

}  // namespace
}  // namespace trireme
