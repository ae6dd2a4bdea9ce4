#include "device/arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "device/workbench.h"

namespace trireme {
namespace {

MemoryUse Planned() {
  MemoryUse planned;
  planned[MemoryKind::kWeights] = 512;
  planned[MemoryKind::kScratch] = 1024;
  return planned;
}

TEST(Arena, CountsWhatItHandsOutRoundedToItsAlignment) {
  const auto cpu = CpuForTest();
  Arena arena(*cpu, Planned());
  arena.Allocate(MemoryKind::kWeights, DType::kBFloat16, {129});
  arena.Allocate(MemoryKind::kScratch, DType::kFloat32, {3});
  MemoryUse expected;
  expected[MemoryKind::kWeights] = 512;
  expected[MemoryKind::kScratch] = 256;
  EXPECT_EQ(arena.used(), expected);
  EXPECT_EQ(arena.planned(), Planned());
}

TEST(Arena, TensorsAreAlignedAndDoNotOverlap) {
  const auto cpu = CpuForTest();
  Arena arena(*cpu, Planned());
  const Tensor a = arena.Allocate(MemoryKind::kScratch, DType::kFloat32, {65});
  const Tensor b = arena.Allocate(MemoryKind::kWeights, DType::kInt32, {2, 32});
  const Tensor c = arena.Allocate(MemoryKind::kScratch, DType::kFloat32, {64});
  for (const Tensor& tensor : {a, b, c}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data) % kArenaAlignment, 0U);
  }
  cpu->ops().Fill(a, 1);
  cpu->ops().Fill(b, 2);
  cpu->ops().Fill(c, 3);
  EXPECT_EQ(a.as<float>()[64], 1);
  EXPECT_EQ(b.as<std::int32_t>()[63], 2);
  EXPECT_EQ(c.as<float>()[63], 3);
}

TEST(Arena, MoreThanPlannedOfOneKindIsAnError) {
  const auto cpu = CpuForTest();
  Arena arena(*cpu, Planned());
  arena.Allocate(MemoryKind::kWeights, DType::kUInt8, {512});
  try {
    arena.Allocate(MemoryKind::kWeights, DType::kUInt8, {1});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("512 bytes were planned"));
  }
  EXPECT_EQ(arena.used()[MemoryKind::kWeights], 512);
}

TEST(Arena, HostMemoryIsABlockOfItsOwn) {
  const auto cpu = CpuForTest();
  MemoryUse planned = Planned();
  planned[MemoryKind::kHost] = 512;
  Arena arena(*cpu, planned);
  const Tensor before = arena.Allocate(MemoryKind::kScratch, DType::kUInt8, {256});
  const Tensor host = arena.Allocate(MemoryKind::kHost, DType::kUInt8, {512});
  const Tensor after = arena.Allocate(MemoryKind::kScratch, DType::kUInt8, {256});
  EXPECT_EQ(after.as<char>(), before.as<char>() + 256);
  cpu->ops().Fill(before, 0);
  cpu->ops().Fill(after, 0);
  std::fill_n(host.as<char>(), 512, 'x');
  EXPECT_EQ(before.as<char>()[255], 0);
  EXPECT_EQ(after.as<char>()[0], 0);
  EXPECT_EQ(arena.used()[MemoryKind::kHost], 512);
  EXPECT_EQ(arena.used().total(), 512);
  EXPECT_THROW(arena.Allocate(MemoryKind::kHost, DType::kUInt8, {1}), Error);
}

TEST(Arena, EmptyTensorsAreGivenAndTakeNothing) {
  const auto cpu = CpuForTest();
  Arena arena(*cpu, MemoryUse{});
  const Tensor empty = arena.Allocate(MemoryKind::kMessages, DType::kFloat32, {0, 5});
  EXPECT_TRUE(empty.given());
  EXPECT_EQ(empty.count(), 0);
  EXPECT_EQ(arena.used().total(), 0);
}

}  // namespace
}  // namespace trireme
