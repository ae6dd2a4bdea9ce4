#include "device/op_cases.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

void ExpectAgreement(const OpCase& op_case, Device& device, DType working, Device& reference) {
  for (const CaseDifference& difference : Compare(op_case, device, working, reference)) {
    EXPECT_LE(difference.difference, difference.tolerance) << op_case.name << ", " << difference.result;
  }
}

TEST(OpCases, BFloat16AgreesWithFloatWithinRounding) {
  const auto cpu = CpuForTest();
  for (const OpCase& op_case : OpCases()) {
    ExpectAgreement(op_case, *cpu, DType::kBFloat16, *cpu);
  }
}

// Three bits more than bf16's.
TEST(OpCases, Float16AgreesWithFloatWithinRounding) {
  const auto cpu = CpuForTest();
  for (const OpCase& op_case : OpCases()) {
    ExpectAgreement(op_case, *cpu, DType::kFloat16, *cpu);
  }
}

TEST(OpCases, TwoThreadsAgreeWithOne) {
  const auto one = CpuForTest(1);
  const auto two = CpuForTest(2);
  for (const OpCase& op_case : OpCases()) {
    ExpectAgreement(op_case, *two, DType::kFloat32, *one);
  }
}

TEST(OpCases, TheSameCallTwiceGivesTheSameBits) {
  for (const int threads : {1, 2}) {
    const auto cpu = CpuForTest(threads);
    for (const OpCase& op_case : OpCases()) {
      Workbench first(*cpu);
      Workbench second(*cpu);
      for (const DType working : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
        const auto a = op_case.run(first, working);
        const auto b = op_case.run(second, working);
        for (std::size_t i = 0; i < a.size(); ++i) {
          EXPECT_EQ(RelativeDifference(a[i].values, b[i].values), 0) << op_case.name << ", " << a[i].name;
        }
      }
    }
  }
}

TEST(OpCases, CompareNoticesAWrongResult) {
  const auto cpu = CpuForTest();
  float error = 0;
  const OpCase wrong{"wrong", [&error](Workbench& bench, DType working) {
                       const Tensor t = bench.Normal(working, {100}, "t");
                       bench.ops().Scale(t, 1 + error);
                       error += 0.02F;
                       return std::vector<OpResult>{{"t", bench.Read(t)}};
                     }};
  const auto differences = Compare(wrong, *cpu, DType::kBFloat16, *cpu);
  ASSERT_EQ(differences.size(), 1U);
  EXPECT_EQ(differences[0].result, "t");
  EXPECT_GT(differences[0].difference, differences[0].tolerance);
}

TEST(OpCases, AnUnwrittenElementIsADifference) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const std::vector<float> unwritten = bench.Read(bench.Output(DType::kBFloat16, {3}));
  EXPECT_EQ(RelativeDifference(unwritten, {1, 2, 3}), std::numeric_limits<double>::infinity());
  EXPECT_EQ(RelativeDifference({1, 2}, {1, 2, 3}), std::numeric_limits<double>::infinity());
}

TEST(OpCases, GradientChecksNoticeAWrongElement) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const Tensor x = bench.From(DType::kFloat32, {2}, {1, 2});
  const auto loss = [&] { return Dot(bench.Read(x), bench.Read(x)); };
  ExpectGradient(bench, {.variable = x, .gradient = bench.From(DType::kFloat32, {2}, {2, 4}), .loss = loss});
  EXPECT_NONFATAL_FAILURE(
      ExpectGradient(bench, {.variable = x, .gradient = bench.From(DType::kFloat32, {2}, {2, 4.1F}), .loss = loss}),
      "element 1");
}

}  // namespace
}  // namespace trireme
