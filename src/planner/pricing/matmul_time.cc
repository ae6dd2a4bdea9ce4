#include "planner/pricing/matmul_time.h"

#include <algorithm>

#include "base/shape.h"

namespace trireme {
namespace {

struct Tile {
  std::int64_t rows;
  std::int64_t columns;
  double relative;  // speed of its inner loop over the best one's
};
constexpr Tile kTiles[] = {{256, 128, 1.0}, {128, 256, 1.0}, {128, 128, 0.93}};

// Products whose extents are no multiple of 8 halves miss the wide loads of matrix units.
constexpr std::int64_t kAlignment = 8;
constexpr double kUnaligned = 0.35;

}  // namespace

double WaveEfficiency(std::int64_t m, std::int64_t n, int units, std::int64_t copies) {
  double best = 0;
  for (const Tile& tile : kTiles) {
    const std::int64_t tiles = copies * CeilDiv(m, tile.rows) * CeilDiv(n, tile.columns);
    const double used = static_cast<double>(copies) * static_cast<double>(m) * static_cast<double>(n) /
                        static_cast<double>(tile.rows * tile.columns);
    best = std::max(best, tile.relative * used / static_cast<double>(RoundUp(tiles, units)));
  }
  return best;
}

double FilledShare(std::int64_t m, std::int64_t n, int units, std::int64_t copies) {
  return units > 1 ? std::max(WaveEfficiency(m, n, units, copies), 0.25) : 1;
}

double MatmulPrice::Rate(const MatmulShape& shape, std::int64_t copies) const {
  double rate = device.Peak(format, dtype) * efficiency;
  if (device.units > 1) {
    rate /= 1 + wave_weight * (1 / FilledShare(shape.m, shape.n, device.units, copies) - 1);
    if (dtype != DType::kFloat32 && (shape.n % kAlignment != 0 || shape.k % kAlignment != 0)) {
      rate *= kUnaligned;
    }
  }
  return rate;
}

// A tile takes as long as this much more depth to fill its pipeline and to store what it made.
double MatmulPrice::GroupedSeconds(const MatmulShape& shape, std::int64_t count, std::int64_t together) const {
  constexpr double kTileStart = 64;
  const double m = static_cast<double>(shape.m);
  const double n = static_cast<double>(shape.n);
  const double k = static_cast<double>(shape.k);
  const std::int64_t copies = together > 0 ? std::min(together, count) : count;
  const double deeper = device.units > 1 ? k + kTileStart : k;
  const double bytes = (m * k + k * n + m * n) * static_cast<double>(SizeOf(dtype));
  return static_cast<double>(count) *
         std::max(2 * m * n * deeper / Rate(shape, copies), bytes / (device.memory_bandwidth * memory_efficiency));
}

double MatmulPrice::Seconds(const MatmulShape& shape) const {
  const double m = static_cast<double>(shape.m);
  const double n = static_cast<double>(shape.n);
  const double k = static_cast<double>(shape.k);
  const double bytes = (m * k + k * n + m * n) * static_cast<double>(SizeOf(dtype));
  return std::max(2 * m * n * k / Rate(shape, 1), bytes / (device.memory_bandwidth * memory_efficiency));
}

}  // namespace trireme
