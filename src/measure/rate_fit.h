// Laws of seconds from samples: least squares of relative errors with coefficients that are never negative. Pure
// arithmetic.
#pragma once

#include <span>
#include <vector>

#include "topology/measured_rates.h"

namespace trireme {

struct WorkSample {
  double work = 0;
  double seconds = 0;
};

struct ProductSample {
  double m = 0;
  double n = 0;
  double k = 0;
  double filled = 1;  // share of the device's units at work
  double seconds = 0;
};

// Coefficients, one for each column of `features`, whose sums come closest to `seconds`, relative to these. At most
// eight columns; every row has as many.
std::vector<double> FitNonNegative(const std::vector<std::vector<double>>& features, std::span<const double> seconds);

// Requires at least one sample, all with seconds above 0.
RateLaw FitRate(std::span<const WorkSample> samples);
ProductLaw FitProduct(std::span<const ProductSample> samples);

// Root mean square of law over measured, less one.
double ErrorOf(const RateLaw& law, std::span<const WorkSample> samples);
double ErrorOf(const ProductLaw& law, std::span<const ProductSample> samples);

}  // namespace trireme
