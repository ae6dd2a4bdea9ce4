#include "base/accounting.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace trireme {
namespace {

TEST(MemoryUse, AddsByKind) {
  MemoryUse first;
  first[MemoryKind::kWeights] = 3;
  MemoryUse second;
  second[MemoryKind::kWeights] = 4;
  second[MemoryKind::kScratch] = 5;
  first += second;
  EXPECT_EQ(first[MemoryKind::kWeights], 7);
  EXPECT_EQ(first[MemoryKind::kScratch], 5);
  EXPECT_EQ(first.total(), 12);
  EXPECT_NE(first, second);
}

TEST(MemoryUse, TheTotalIsOfTheDevice) {
  MemoryUse use;
  use[MemoryKind::kOptimizer] = 3;
  use[MemoryKind::kHost] = 4;
  EXPECT_EQ(use.total(), 3);
}

TEST(FlopCount, AddsAndMultiplies) {
  FlopCount count{.matmul = 1, .attention = 2, .recomputed = 3};
  count += FlopCount{.matmul = 10, .attention = 20, .recomputed = 30};
  EXPECT_EQ(count * 2, (FlopCount{.matmul = 22, .attention = 44, .recomputed = 66}));
  EXPECT_EQ(count.total(), 66);
}

TEST(Traffic, CountsCallsAndBytesByKind) {
  Traffic traffic;
  traffic.Add(CollectiveKind::kAllReduce, 100);
  const Traffic earlier = traffic;
  traffic.Add(CollectiveKind::kAllReduce, 8, 3);
  traffic.Add(CollectiveKind::kSend, 5);
  const auto all_reduce = static_cast<std::size_t>(CollectiveKind::kAllReduce);
  EXPECT_EQ(traffic.calls[all_reduce], 4);
  EXPECT_EQ(traffic.bytes[all_reduce], 124);
  Traffic since = traffic - earlier;
  EXPECT_EQ(since.bytes[all_reduce], 24);
  since += earlier;
  EXPECT_EQ(since, traffic);
}

TEST(AccountingNames, AreDifferent) {
  std::set<std::string> names;
  for (int kind = 0; kind < kMemoryKinds; ++kind) {
    names.emplace(Name(static_cast<MemoryKind>(kind)));
  }
  for (int kind = 0; kind < kCollectiveKinds; ++kind) {
    names.emplace(Name(static_cast<CollectiveKind>(kind)));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kMemoryKinds + kCollectiveKinds));
}

}  // namespace
}  // namespace trireme
