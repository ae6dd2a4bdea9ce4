// Seconds of a matrix product as a function of its shape: peak times a calibrated efficiency, less what partly filled
// tiles and waves leave idle, never faster than its operands can be read.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "topology/cluster.h"

namespace trireme {

// out[m, n] = sum over k.
struct MatmulShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

// Work over what the tiles and waves of the best tile shape occupy: 1 when all fits exactly.
// `copies`: of such products that run at once.
double WaveEfficiency(std::int64_t m, std::int64_t n, int units, std::int64_t copies = 1);

// The filled share of a device of `units`: at least a quarter, as a small product may cut k over idle units.
double FilledShare(std::int64_t m, std::int64_t n, int units, std::int64_t copies = 1);

struct MatmulPrice {
  const DeviceSpec& device;
  DType dtype;
  ProductFormat format = ProductFormat::kNative;
  double efficiency = 0.75;        // of peak
  double memory_efficiency = 0.8;  // of memory bandwidth
  double wave_weight = 1;

  double Seconds(const MatmulShape& shape) const;
  // `count` products of this shape, `together` at a time (0: all).
  double GroupedSeconds(const MatmulShape& shape, std::int64_t count, std::int64_t together) const;

 private:
  double Rate(const MatmulShape& shape, std::int64_t copies) const;
};

}  // namespace trireme
