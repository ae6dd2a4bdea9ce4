#include "device/cpu/parallel.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "device/cpu/scratch.h"

namespace trireme {
namespace {

// The threads that work on `parts` parts.
std::set<pid_t> ThreadsOf(int threads, int parts) {
  std::vector<pid_t> ids(static_cast<std::size_t>(parts));
  ParallelParts(threads, parts, [&](int part) { ids[static_cast<std::size_t>(part)] = ::gettid(); });
  return {ids.begin(), ids.end()};
}

TEST(Parallel, EveryPartHasAThreadAndWorkForFewerEndsNone) {
  const std::set<pid_t> all = ThreadsOf(4, 4);
  EXPECT_EQ(all.size(), 4);
  EXPECT_EQ(ThreadsOf(4, 2).size(), 2);
  EXPECT_EQ(ThreadsOf(4, 4), all);
}

// Items below `count`, each of which three threads that begin together must take once: take(thread, visit) calls
// visit(item) for those that a thread takes.
template <typename Take>
void ExpectEachTakenOnce(std::int64_t count, const Take& take) {
  std::vector<std::atomic<int>> taken(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  std::atomic<int> come = 0;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      for (++come; come < 3;) {
        std::this_thread::yield();
      }
      take(i, [&](std::int64_t item) { ++taken[static_cast<std::size_t>(item)]; });
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (std::size_t i = 0; i < taken.size(); ++i) {
    ASSERT_EQ(taken[i], 1) << i;
  }
}

TEST(Parallel, EveryItemIsTakenOnce) {
  SharedItems items(100000);
  ExpectEachTakenOnce(100000, [&](int, const auto& visit) {
    for (std::int64_t item = 0; items.Take(item);) {
      visit(item);
    }
  });
}

TEST(Parallel, AThreadTakesHalfOfItsOwnItemsAtATimeAndThenTheLastOfOthers) {
  StealingItems items;
  items.Reset(20, 2);
  std::vector<std::pair<std::int64_t, std::int64_t>> taken;
  for (Span run; items.Take(1, 4, run);) {
    taken.emplace_back(run.begin, run.end);
  }
  // Its own are 10 … 19.
  const std::vector<std::pair<std::int64_t, std::int64_t>> first{{10, 14}, {14, 17}, {17, 19}, {19, 20}, {9, 10}};
  ASSERT_EQ(taken.size(), 4 + 10);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), taken.begin()));
  EXPECT_EQ(taken.back(), std::pair(std::int64_t{0}, std::int64_t{1}));
  Span run;
  EXPECT_FALSE(items.Take(0, 4, run));
  // Fewer items than threads, after a reset to more threads.
  items.Reset(1, 5);
  EXPECT_TRUE(items.Take(2, 4, run));
  EXPECT_EQ(run.begin, 0);
  EXPECT_EQ(run.end, 1);
  EXPECT_FALSE(items.Take(4, 4, run));
}

TEST(Parallel, EveryStealableItemIsTakenOnce) {
  StealingItems items;
  items.Reset(100000, 4);  // the last span has no thread of its own
  ExpectEachTakenOnce(100000, [&](int thread, const auto& visit) {
    for (Span run; items.Take(thread, 3, run);) {
      for (std::int64_t item = run.begin; item < run.end; ++item) {
        visit(item);
      }
    }
  });
}

TEST(Parallel, ScratchOfOneThreadLeavesThoseOfOthersAsTheyAre) {
  Scratch scratch;
  scratch.Reserve(4, 100);
  scratch.Reserve(1, 1000);
  EXPECT_EQ(scratch.bytes(), 4 * (1000 + 3 * 100));
  scratch.Reserve(2, 500);
  EXPECT_EQ(scratch.bytes(), 4 * (1000 + 500 + 2 * 100));
}

}  // namespace
}  // namespace trireme
