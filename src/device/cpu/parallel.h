// Work over a range of rows or elements, cut into one contiguous part a thread. The parts depend only on the count and
// on the number of threads, so sums that follow them give equal bits in every run.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/shape.h"

namespace trireme {

// Elements below which a second thread costs more than it gains.
inline constexpr std::int64_t kElementGrain = 1 << 15;

// Parts that ParallelRanges makes: at most `threads`, each of at least `grain` (the last one may be smaller).
inline int PartCount(int threads, std::int64_t count, std::int64_t grain) {
  const std::int64_t most = CeilDiv(count, std::max<std::int64_t>(grain, 1));
  return static_cast<int>(std::clamp<std::int64_t>(most, 1, threads));
}

// Calls function(part, begin, end) for each part; `function` must not throw.
template <typename Function>
void ParallelRanges(int threads, std::int64_t count, std::int64_t grain, const Function& function) {
  const int parts = PartCount(threads, count, grain);
  if (parts == 1) {
    function(0, std::int64_t{0}, count);
    return;
  }
#pragma omp parallel for num_threads(parts) schedule(static, 1)
  for (int part = 0; part < parts; ++part) {
    function(part, count * part / parts, count * (part + 1) / parts);
  }
}

// Rows of `columns` elements that make up one grain.
inline std::int64_t RowGrain(std::int64_t columns) {
  return std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(columns, 1));
}

}  // namespace trireme
