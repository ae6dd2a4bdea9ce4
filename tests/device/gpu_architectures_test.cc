#include "device/gpu_architectures.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(GpuArchitectures, MachineCodeRunsOnItsOwnAndLaterOnesOfTheGeneration) {
  EXPECT_TRUE(HasKernelsFor("80-real", 80));
  EXPECT_TRUE(HasKernelsFor("80-real", 86));
  EXPECT_FALSE(HasKernelsFor("86-real", 80));
  EXPECT_FALSE(HasKernelsFor("80-real", 90));
  EXPECT_FALSE(HasKernelsFor("100-real", 120));
}

TEST(GpuArchitectures, PtxRunsOnEveryLaterOne) {
  EXPECT_TRUE(HasKernelsFor("80-virtual", 121));
  EXPECT_FALSE(HasKernelsFor("90-virtual", 89));
  EXPECT_TRUE(HasKernelsFor("80", 90));
}

TEST(GpuArchitectures, AnyOfAListWillDo) {
  const std::string built_for = "80-real, 90-real, 100";
  EXPECT_TRUE(HasKernelsFor(built_for, 89));
  EXPECT_TRUE(HasKernelsFor(built_for, 90));
  EXPECT_TRUE(HasKernelsFor(built_for, 120));
  EXPECT_FALSE(HasKernelsFor(built_for, 75));
  EXPECT_FALSE(HasKernelsFor("80-real, 90-real", 100));
}

TEST(GpuArchitectures, KernelsOfOneArchitectureOrFamilyRunThereAlone) {
  EXPECT_TRUE(HasKernelsFor("90a", 90));
  EXPECT_FALSE(HasKernelsFor("90a", 100));
  EXPECT_TRUE(HasKernelsFor("100f-real", 103));
  EXPECT_FALSE(HasKernelsFor("100f", 120));
}

TEST(GpuArchitectures, WordsAreNoArchitectures) {
  for (const char* const words : {"", "all-major", "native", "OFF"}) {
    EXPECT_FALSE(HasKernelsFor(words, 90)) << words;
  }
}

}  // namespace
}  // namespace trireme
