// Robust least squares for a handful of positive numbers, each with a starting value that it is held to (a Gaussian
// prior of its logarithm). Residuals are logarithms of predicted over measured; large ones count linearly (Huber).
#pragma once

#include <functional>
#include <vector>

namespace trireme {

struct LeastSquares {
  // Residuals for the logarithmic offsets `x` from the starting values.
  std::function<std::vector<double>(const std::vector<double>& x)> residuals;
  std::vector<double> deviations;  // of the prior, by number
  double noise = 0.05;             // of a good measurement
  double huber = 0.06;             // residuals beyond it are outliers
  int iterations = 12;
};

struct LeastSquaresFit {
  std::vector<double> x;
  std::vector<double> residuals;
};

// Levenberg-Marquardt with numeric derivatives, from `start` (zeros when empty).
LeastSquaresFit Solve(const LeastSquares& problem, std::vector<double> start = {});

}  // namespace trireme
