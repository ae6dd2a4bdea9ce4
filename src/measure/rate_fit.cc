#include "measure/rate_fit.h"

#include <cassert>
#include <cmath>
#include <optional>

namespace trireme {
namespace {

// Solves the normal equations of the chosen columns; none where they depend on each other.
std::optional<std::vector<double>> SolveColumns(const std::vector<std::vector<double>>& rows,
                                                const std::vector<std::size_t>& columns) {
  const std::size_t n = columns.size();
  std::vector<std::vector<double>> matrix(n, std::vector<double>(n + 1, 0.0));
  for (const std::vector<double>& row : rows) {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        matrix[i][j] += row[columns[i]] * row[columns[j]];
      }
      matrix[i][n] += row[columns[i]];
    }
  }
  for (std::size_t pivot = 0; pivot < n; ++pivot) {
    std::size_t best = pivot;
    for (std::size_t row = pivot + 1; row < n; ++row) {
      best = std::abs(matrix[row][pivot]) > std::abs(matrix[best][pivot]) ? row : best;
    }
    std::swap(matrix[pivot], matrix[best]);
    if (std::abs(matrix[pivot][pivot]) < 1e-12) {
      return std::nullopt;
    }
    for (std::size_t row = 0; row < n; ++row) {
      const double factor = row == pivot ? 0 : matrix[row][pivot] / matrix[pivot][pivot];
      for (std::size_t column = pivot; column <= n; ++column) {
        matrix[row][column] -= factor * matrix[pivot][column];
      }
    }
  }
  std::vector<double> solution(n);
  for (std::size_t i = 0; i < n; ++i) {
    solution[i] = matrix[i][n] / matrix[i][i];
  }
  return solution;
}

double SquaresOf(const std::vector<std::vector<double>>& rows, const std::vector<double>& coefficients) {
  double squares = 0;
  for (const std::vector<double>& row : rows) {
    double sum = -1;
    for (std::size_t i = 0; i < row.size(); ++i) {
      sum += row[i] * coefficients[i];
    }
    squares += sum * sum;
  }
  return squares;
}

double Inverse(double value) { return value > 0 ? 1 / value : 0; }

}  // namespace

std::vector<double> FitNonNegative(const std::vector<std::vector<double>>& features, std::span<const double> seconds) {
  assert(!features.empty() && features.size() == seconds.size() && features.front().size() <= 8);
  const std::size_t columns = features.front().size();
  // Features over seconds; columns scaled to a mean of 1, so that the equations are well conditioned.
  std::vector<std::vector<double>> rows = features;
  std::vector<double> scales(columns, 0.0);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      rows[r][c] /= seconds[r];
      scales[c] += rows[r][c] / static_cast<double>(rows.size());
    }
  }
  for (std::vector<double>& row : rows) {
    for (std::size_t c = 0; c < columns; ++c) {
      row[c] *= Inverse(scales[c]);
    }
  }
  std::vector<double> best(columns, 0.0);
  double least = SquaresOf(rows, best);
  for (unsigned chosen = 1; chosen < 1U << columns; ++chosen) {
    std::vector<std::size_t> subset;
    for (std::size_t c = 0; c < columns; ++c) {
      if ((chosen >> c & 1U) != 0) {
        subset.push_back(c);
      }
    }
    const std::optional<std::vector<double>> solution = SolveColumns(rows, subset);
    std::vector<double> coefficients(columns, 0.0);
    bool usable = solution.has_value();
    for (std::size_t i = 0; usable && i < subset.size(); ++i) {
      usable = (*solution)[i] >= 0;
      coefficients[subset[i]] = (*solution)[i];
    }
    if (const double squares = usable ? SquaresOf(rows, coefficients) : least; squares < least) {
      least = squares;
      best = coefficients;
    }
  }
  for (std::size_t c = 0; c < columns; ++c) {
    best[c] *= Inverse(scales[c]);
  }
  return best;
}

RateLaw FitRate(std::span<const WorkSample> samples) {
  std::vector<std::vector<double>> features;
  std::vector<double> seconds;
  for (const WorkSample& sample : samples) {
    features.push_back({1, sample.work});
    seconds.push_back(sample.seconds);
  }
  const std::vector<double> fit = FitNonNegative(features, seconds);
  return {.call = fit[0], .rate = Inverse(fit[1])};
}

ProductLaw FitProduct(std::span<const ProductSample> samples) {
  std::vector<std::vector<double>> features;
  std::vector<double> seconds;
  for (const ProductSample& s : samples) {
    features.push_back({1, 2 * s.m * s.n * s.k / s.filled, s.m * s.k + s.k * s.n, s.m * s.n});
    seconds.push_back(s.seconds);
  }
  const std::vector<double> fit = FitNonNegative(features, seconds);
  return {.call = fit[0], .flops = Inverse(fit[1]), .operands = Inverse(fit[2]), .results = Inverse(fit[3])};
}

double ErrorOf(const RateLaw& law, std::span<const WorkSample> samples) {
  double squares = 0;
  for (const WorkSample& sample : samples) {
    squares += std::pow(law.Seconds(sample.work) / sample.seconds - 1, 2);
  }
  return std::sqrt(squares / static_cast<double>(samples.size()));
}

double ErrorOf(const ProductLaw& law, std::span<const ProductSample> samples) {
  double squares = 0;
  for (const ProductSample& s : samples) {
    squares += std::pow(law.Seconds(s.m, s.n, s.k, s.filled) / s.seconds - 1, 2);
  }
  return std::sqrt(squares / static_cast<double>(samples.size()));
}

}  // namespace trireme
