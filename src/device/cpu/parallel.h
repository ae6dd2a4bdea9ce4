// Work in a CPU device's threads: parts, a range of rows or elements cut into one contiguous part per thread, or items
// that threads take one by one. Parts of a range depend only on the count and on the number of threads, so sums that
// follow them give equal bits in every run.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/shape.h"

namespace trireme {

// Elements below which a second thread costs more than it gains.
inline constexpr std::int64_t kElementGrain = 1 << 15;

// Parts that ParallelRanges makes: at most `threads`, no more than `count` has grains.
inline int PartCount(int threads, std::int64_t count, std::int64_t grain) {
  const std::int64_t most = CeilDiv(count, std::max<std::int64_t>(grain, 1));
  return static_cast<int>(std::clamp<std::int64_t>(most, 1, threads));
}

// Calls function(part) for each part below `parts`, which is at most `threads`, each in a thread of its own where
// OpenMP gives as many; `function` must not throw. A team of `threads` works on any number of parts but one, some of
// them idle: libgomp ends threads that a smaller team has no use for, and starts others for the next larger one.
template <typename Function>
void ParallelParts(int threads, int parts, const Function& function) {
  if (parts == 1) {
    function(0);
    return;
  }
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int part = 0; part < parts; ++part) {
    function(part);
  }
}

// Items 0 … count - 1 that threads take one by one: one that is held up takes fewer. For work whose results do not
// depend on the thread that does it.
class SharedItems {
 public:
  explicit SharedItems(std::int64_t count) : count_(count) {}
  // The next item; false when all are taken.
  bool Take(std::int64_t& item) {
    item = next_.fetch_add(1, std::memory_order_relaxed);
    return item < count_;
  }

 private:
  std::int64_t count_;
  std::atomic<std::int64_t> next_{0};
};

// Calls function(part, begin, end) for each part; `function` must not throw.
template <typename Function>
void ParallelRanges(int threads, std::int64_t count, std::int64_t grain, const Function& function) {
  const int parts = PartCount(threads, count, grain);
  ParallelParts(threads, parts, [&](int part) { function(part, count * part / parts, count * (part + 1) / parts); });
}

// Rows of `columns` elements that make up one grain.
inline std::int64_t RowGrain(std::int64_t columns) {
  return std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(columns, 1));
}

}  // namespace trireme
