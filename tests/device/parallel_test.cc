#include "device/cpu/parallel.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <set>
#include <thread>
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

TEST(Parallel, EveryItemIsTakenOnce) {
  constexpr std::int64_t kItems = 100000;
  SharedItems items(kItems);
  std::vector<std::atomic<int>> taken(kItems);
  std::vector<std::thread> threads;
  std::atomic<int> come = 0;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (++come; come < 3;) {
        std::this_thread::yield();
      }
      for (std::int64_t item = 0; items.Take(item);) {
        ++taken[static_cast<std::size_t>(item)];
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (std::size_t i = 0; i < taken.size(); ++i) {
    ASSERT_EQ(taken[i], 1) << i;
  }
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
