#include "planner/validation/least_squares.h"

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

using Vector = std::vector<double>;

constexpr double kDelta = 1e-3;       // of a numeric derivative
constexpr double kLongestStep = 0.7;  // of a logarithm

double Loss(const LeastSquares& problem, const Vector& residuals, const Vector& x) {
  double sum = 0;
  for (const double residual : residuals) {
    const double size = std::abs(residual);
    sum += size < problem.huber ? size * size / 2 : problem.huber * (size - problem.huber / 2);
  }
  sum /= problem.noise * problem.noise;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum += x[i] * x[i] / (2 * problem.deviations[i] * problem.deviations[i]);
  }
  return sum;
}

// Gaussian elimination with partial pivoting; a pivot of zero leaves its number where it is.
Vector SolveLinear(std::vector<Vector> a, Vector b) {
  const std::size_t n = b.size();
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t pivot = i;
    for (std::size_t k = i + 1; k < n; ++k) {
      pivot = std::abs(a[k][i]) > std::abs(a[pivot][i]) ? k : pivot;
    }
    std::swap(a[i], a[pivot]);
    std::swap(b[i], b[pivot]);
    if (a[i][i] == 0) {
      continue;
    }
    for (std::size_t k = i + 1; k < n; ++k) {
      const double factor = a[k][i] / a[i][i];
      for (std::size_t j = i; j < n; ++j) {
        a[k][j] -= factor * a[i][j];
      }
      b[k] -= factor * b[i];
    }
  }
  Vector x(n, 0.0);
  for (std::size_t i = n; i-- > 0;) {
    double sum = b[i];
    for (std::size_t j = i + 1; j < n; ++j) {
      sum -= a[i][j] * x[j];
    }
    x[i] = a[i][i] == 0 ? 0 : sum / a[i][i];
  }
  return x;
}

struct Normal {
  std::vector<Vector> matrix;
  Vector right;
};

Normal NormalEquations(const LeastSquares& problem, const Vector& x, const Vector& residuals) {
  const std::size_t n = x.size();
  const double scale = 1 / (problem.noise * problem.noise);
  std::vector<Vector> slopes(n);
  for (std::size_t k = 0; k < n; ++k) {
    Vector moved = x;
    moved[k] += kDelta;
    slopes[k] = problem.residuals(moved);
    for (std::size_t i = 0; i < residuals.size(); ++i) {
      slopes[k][i] = (slopes[k][i] - residuals[i]) / kDelta;
    }
  }
  Normal normal{std::vector<Vector>(n, Vector(n, 0.0)), Vector(n, 0.0)};
  for (std::size_t i = 0; i < residuals.size(); ++i) {
    const double size = std::abs(residuals[i]);
    const double weight = scale * (size < problem.huber ? 1 : problem.huber / size);
    for (std::size_t a = 0; a < n; ++a) {
      normal.right[a] -= weight * slopes[a][i] * residuals[i];
      for (std::size_t b = 0; b < n; ++b) {
        normal.matrix[a][b] += weight * slopes[a][i] * slopes[b][i];
      }
    }
  }
  for (std::size_t a = 0; a < n; ++a) {
    const double held = 1 / (problem.deviations[a] * problem.deviations[a]);
    normal.matrix[a][a] += held;
    normal.right[a] -= held * x[a];
  }
  return normal;
}

}  // namespace

LeastSquaresFit Solve(const LeastSquares& problem, std::vector<double> start) {
  Vector x = start.empty() ? Vector(problem.deviations.size(), 0.0) : std::move(start);
  Vector residuals = problem.residuals(x);
  double loss = Loss(problem, residuals, x);
  double damping = 1e-3;
  for (int iteration = 0; iteration < problem.iterations; ++iteration) {
    const Normal normal = NormalEquations(problem, x, residuals);
    double gain = 0;
    for (int attempt = 0; attempt < 6 && gain <= 0; ++attempt) {
      std::vector<Vector> matrix = normal.matrix;
      for (std::size_t a = 0; a < x.size(); ++a) {
        matrix[a][a] *= 1 + damping;
      }
      const Vector step = SolveLinear(std::move(matrix), normal.right);
      Vector moved = x;
      for (std::size_t a = 0; a < x.size(); ++a) {
        moved[a] += std::clamp(step[a], -kLongestStep, kLongestStep);
      }
      Vector moved_residuals = problem.residuals(moved);
      const double moved_loss = Loss(problem, moved_residuals, moved);
      gain = loss - moved_loss;
      if (gain > 0) {
        x = std::move(moved);
        residuals = std::move(moved_residuals);
        loss = moved_loss;
        damping = std::max(damping / 5, 1e-6);
      } else {
        damping *= 5;
      }
    }
    if (gain < 1e-4 * std::max(1.0, loss)) {
      break;
    }
  }
  return {.x = std::move(x), .residuals = std::move(residuals)};
}

}  // namespace trireme
