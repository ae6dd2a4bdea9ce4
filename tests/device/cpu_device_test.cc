#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "device/workbench.h"

namespace trireme {
namespace {

TEST(CpuDevice, DescribesItself) {
  const auto cpu = CpuForTest();
  EXPECT_THAT(cpu->description(), testing::StartsWith("cpu ("));
  EXPECT_TRUE(cpu->is_host());
  EXPECT_GT(cpu->memory_bytes(), 0);
}

TEST(CpuDevice, MemoryIsAlignedEvenWhenEmpty) {
  const auto cpu = CpuForTest();
  for (const std::int64_t bytes : {0, 1, 255, 257, 100000}) {
    void* memory = cpu->Allocate(bytes);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0U);
    cpu->Free(memory);
  }
  cpu->Free(nullptr);
}

TEST(CpuDevice, RefusesImpossibleRequests) {
  const auto cpu = CpuForTest();
  EXPECT_THROW(cpu->Allocate(-1), Error);
  EXPECT_THROW(CpuForTest(0), Error);
  EXPECT_THROW(MakeDevice({.kind = "tpu"}), Error);
}

TEST(CpuDevice, InternalMemoryStaysOnceEveryShapeWasSeen) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const auto run = [&](std::int64_t size) {
    bench.ops().Matmul({.a = bench.Normal(DType::kFloat32, {size, size}, "a"),
                        .b = bench.Normal(DType::kFloat32, {size, size}, "b"),
                        .c = bench.Output(DType::kFloat32, {size, size})});
    bench.ops().BiasGradient(bench.Normal(DType::kFloat32, {size, size}, "a"),
                             bench.Filled(DType::kFloat32, {size}, 0));
  };
  run(100);
  run(8);
  const std::int64_t held = cpu->internal_bytes();
  EXPECT_GT(held, 0);
  run(8);
  run(100);
  EXPECT_EQ(cpu->internal_bytes(), held);
}

TEST(CpuDevice, DevicesOfSeveralThreadsDoNotDisturbEachOther) {
  std::vector<std::vector<float>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) {
    threads.emplace_back([&result] {
      const auto cpu = CpuForTest();
      Workbench bench(*cpu);
      const Tensor c = bench.Filled(DType::kFloat32, {40, 40}, 0);
      const Tensor a = bench.Normal(DType::kFloat32, {40, 60}, "a");
      for (int i = 0; i < 20; ++i) {
        bench.ops().Matmul({.a = a, .b = a, .c = c, .transpose_b = true, .accumulate = true});
      }
      result = bench.Read(c);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const auto& result : results) {
    EXPECT_EQ(result, results[0]);
  }
}

TEST(CpuDevice, LongCopiesAndFillsByThreadsReachEveryElementAndNoOther) {
  const auto cpu = CpuForTest(3);
  Workbench bench(*cpu);
  constexpr std::int64_t kLong = 100003;
  for (const DType dtype : {kFloat, DType::kBFloat16, DType::kInt32}) {
    const bool filled_with_any = dtype != DType::kBFloat16;
    for (const float value : filled_with_any ? std::vector<float>{0, 5} : std::vector<float>{0}) {
      const Tensor all = bench.From(dtype, {kLong + 2}, std::vector<float>(kLong + 2, 7));
      bench.ops().Fill(all.Range(1, kLong), value);
      std::vector<float> expected(kLong + 2, value);
      expected.front() = expected.back() = 7;
      EXPECT_EQ(bench.Read(all), expected) << Name(dtype) << ", " << value;
    }
    std::vector<float> values(kLong + 2);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(i % 101);
    }
    const Tensor from = bench.From(dtype, {kLong + 2}, values);
    const Tensor to = bench.From(dtype, {kLong + 2}, std::vector<float>(kLong + 2, 7));
    bench.ops().Copy(to.Range(1, kLong), from.Range(1, kLong));
    values.front() = values.back() = 7;
    EXPECT_EQ(bench.Read(to), values) << Name(dtype);
  }
}

TEST(CpuDevice, RepeatCallsTheWorkEveryTime) {
  const auto cpu = CpuForTest();
  int calls = 0;
  for (int i = 0; i < 3; ++i) {
    cpu->Repeat(1, [&] { ++calls; });
  }
  EXPECT_EQ(calls, 3);
}

TEST(CpuDevice, TakesOverTheEnginesOfACheckpointWhereEnginesAreChosen) {
  const std::string packed = "engines fp32=packed bf16=packed\n";
  const std::string widened = "engines fp32=packed bf16=widened\n";
  const auto fixed = MakeCpuDevice({.threads = 1});
  EXPECT_EQ(fixed->choices(), packed);
  fixed->ReadChoices(widened);
  EXPECT_EQ(fixed->choices(), packed);
  const auto chosen = MakeCpuDevice({.threads = 1, .choose_engines = [](int) { return ""; }});
  chosen->ReadChoices("another library's line\n" + widened);
  EXPECT_EQ(chosen->choices(), widened);
}

TEST(CpuDevice, SaysWhichEnginesOfACheckpointItCannotUse) {
  const auto cpu = MakeCpuDevice({.threads = 1, .choose_engines = [](int) { return ""; }});
  EXPECT_EQ(cpu->substitutions(), "");
  cpu->ReadChoices("engines fp32=packed bf16=openblas\n");
  EXPECT_EQ(cpu->substitutions(), "engine openblas cannot multiply bf16 here: packed multiplies it instead");
  EXPECT_EQ(cpu->choices(), "engines fp32=packed bf16=packed\n");
  cpu->ReadChoices("engines fp32=packed bf16=widened\n");
  EXPECT_EQ(cpu->substitutions(), "");
}

}  // namespace
}  // namespace trireme
