// Work in a CPU device's threads: parts, a range of rows or elements cut into one contiguous part per thread, or items
// that threads take while there are any. Parts of a range depend only on the count and on the number of threads, so
// sums that follow them give equal bits in every run.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/shape.h"

namespace trireme {

struct Span {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// Part `part` of `parts` nearly equal ones.
inline Span CutSpan(const Span& span, std::int64_t part, std::int64_t parts) {
  const std::int64_t length = span.end - span.begin;
  return {span.begin + length * part / parts, span.begin + length * (part + 1) / parts};
}

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

// Items 0 … count - 1 with work stealing: each thread has a span of its own, takes runs from its front, and when it is
// empty single items from the back of others'. For items that share data with their neighbours. Results must not depend
// on the thread that does an item.
class StealingItems {
 public:
  // Before threads take items; none may be taking. At most 2^32 - 1 items.
  void Reset(std::int64_t count, int threads) {
    if (threads > capacity_) {
      spans_ = std::make_unique<OwnSpan[]>(static_cast<std::size_t>(threads));
      capacity_ = threads;
    }
    threads_ = threads;
    for (int thread = 0; thread < threads; ++thread) {
      Of(thread).store(Pack(CutSpan({0, count}, thread, threads)), std::memory_order_relaxed);
    }
  }
  // The next run for `thread`: half of what its span still has, at most `most`; false when all items are taken.
  bool Take(int thread, std::int64_t most, Span& run) {
    const auto half = [&](const Span& left) {
      return Span{left.begin, left.begin + std::min(most, CeilDiv(left.end - left.begin, 2))};
    };
    if (TakeFrom(thread, half, run)) {
      return true;
    }
    const auto last = [](const Span& left) { return Span{left.end - 1, left.end}; };
    for (int i = 1; i < threads_; ++i) {
      if (TakeFrom((thread + i) % threads_, last, run)) {
        return true;
      }
    }
    return false;
  }

 private:
  // Begin and end in one word, on a cache line of its own.
  struct alignas(64) OwnSpan {
    std::atomic<std::uint64_t> word{0};
  };

  static std::uint64_t Pack(const Span& span) {
    return static_cast<std::uint64_t>(span.begin) << 32 | static_cast<std::uint64_t>(span.end);
  }
  std::atomic<std::uint64_t>& Of(int thread) { return spans_[static_cast<std::size_t>(thread)].word; }

  // `choose` says which items to take: the first or the last of those that are left.
  template <typename Choose>
  bool TakeFrom(int owner, const Choose& choose, Span& run) {
    std::atomic<std::uint64_t>& word = Of(owner);
    for (std::uint64_t seen = word.load(std::memory_order_relaxed);;) {
      const Span left{static_cast<std::int64_t>(seen >> 32), static_cast<std::int64_t>(seen & 0xffffffffU)};
      if (left.begin >= left.end) {
        return false;
      }
      run = choose(left);
      const Span rest = run.begin == left.begin ? Span{run.end, left.end} : Span{left.begin, run.begin};
      if (word.compare_exchange_weak(seen, Pack(rest), std::memory_order_relaxed)) {
        return true;
      }
    }
  }

  std::unique_ptr<OwnSpan[]> spans_;
  int capacity_ = 0;
  int threads_ = 0;
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
