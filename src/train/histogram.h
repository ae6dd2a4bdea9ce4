// Counts of values in buckets that grow by a quarter from 1e-12 to 1e8 on either side of 0: the same edges everywhere,
// so that histograms of parts add up to that of the whole.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

class Histogram {
 public:
  // Upper edges of the buckets, ascending; the last is beyond every finite value. A value lies below its bucket's edge
  // and not below the one before.
  static const std::vector<double>& Edges();

  Histogram() : counts_(Edges().size(), 0) {}

  // Values that are not finite are counted apart.
  void Add(std::span<const float> values, double factor = 1);

  double least = 0;  // of the finite values; 0 where there are none
  double most = 0;
  double sum = 0;
  double squares = 0;
  std::int64_t count = 0;  // finite values
  std::int64_t others = 0;

  std::vector<std::int64_t>& counts() { return counts_; }
  const std::vector<std::int64_t>& counts() const { return counts_; }

 private:
  std::vector<std::int64_t> counts_;  // by bucket
};

}  // namespace trireme
