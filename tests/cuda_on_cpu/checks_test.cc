// What the checks must find, and what they must not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda_on_cpu/faulty_kernels.h"
#include "cuda_on_cpu/findings.h"
#include "device/cuda/cuda_check.h"

namespace trireme::cuda_on_cpu {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class Checks : public testing::TestWithParam<SmallKernel> {};

// In ascending, descending and drawn orders alike: what is found does not hang on the order that ran.
TEST_P(Checks, NameTheFaultOfAKernel) {
  const std::uint64_t given = Seed();
  for (const std::uint64_t seed : {std::uint64_t{1}, std::uint64_t{2}, given + 2}) {
    SetSeed(seed);
    CudaContext context(0, {.kind = "cuda"});
    KernelMemory memory;
    CheckCuda(cudaMalloc(&memory.zeros, kFloats * sizeof(float)), "take memory");
    CheckCuda(cudaMalloc(&memory.unwritten, kFloats * sizeof(float)), "take memory");
    CheckCuda(cudaMemsetAsync(memory.zeros, 0, kFloats * sizeof(float), context.stream()), "clear");
    GetParam().start(context, memory);
    CheckCuda(cudaStreamSynchronize(context.stream()), "wait");
    cudaFree(memory.zeros);
    cudaFree(memory.unwritten);
    const std::vector<std::string> findings = TakeFindings();
    if (GetParam().finding.empty()) {
      EXPECT_THAT(findings, IsEmpty()) << "seed " << seed;
    } else {
      EXPECT_THAT(findings, testing::Contains(HasSubstr(GetParam().finding))) << "seed " << seed;
    }
  }
  SetSeed(given);
}

INSTANTIATE_TEST_SUITE_P(All, Checks, testing::ValuesIn(SmallKernels()),
                         [](const auto& kernel) { return kernel.param.name; });

TEST(Finding, NamesKernelLineBlockAndThread) {
  CudaContext context(0, {.kind = "cuda"});
  float* memory = nullptr;
  CheckCuda(cudaMalloc(&memory, 1024), "take memory");
  StartRead(context, memory, memory);
  CheckCuda(cudaStreamSynchronize(context.stream()), "wait");
  cudaFree(memory);
  EXPECT_THAT(TakeFindings(),
              testing::Contains(testing::MatchesRegex("uninitialised global memory: .*ReadKernel, block \\(0, 0, 0\\), "
                                                      "thread [0-9]+, faulty_kernels.cu:[0-9]+ reads 4 bytes .*")));
}

}  // namespace
}  // namespace trireme::cuda_on_cpu
