#include <gtest/gtest.h>

#include <exception>
#include <tuple>

#include "device/op_cases.h"

namespace trireme {
namespace {

// Law 7: every back end beside the CPU gives the CPU's results. One test walks all cases, since starting a GPU's
// libraries takes longer than the cases themselves.
class OpsAgainstCpu : public testing::TestWithParam<std::tuple<DType, bool>> {};

TEST_P(OpsAgainstCpu, ResultsAgree) {
  const auto [working, deterministic] = GetParam();
  const auto cpu = CpuForTest();
  const auto device = MakeDevice({.kind = "cuda", .deterministic = deterministic});
  for (const OpCase& op_case : OpCases()) {
    try {
      for (const CaseDifference& difference : Compare(op_case, *device, working, *cpu)) {
        EXPECT_LE(difference.difference, difference.tolerance) << op_case.name << ", " << difference.result;
      }
    } catch (const std::exception& error) {
      ADD_FAILURE() << op_case.name << ": " << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, OpsAgainstCpu,
                         testing::Combine(testing::Values(DType::kFloat32, DType::kBFloat16), testing::Bool()),
                         [](const auto& choice) {
                           return std::string(Name(std::get<0>(choice.param))) +
                                  (std::get<1>(choice.param) ? "Deterministic" : "");
                         });

TEST(CudaDevice, DeterministicModeGivesTheSameBitsTwice) {
  const auto device = MakeDevice({.kind = "cuda", .deterministic = true});
  Workbench bench(*device);
  for (const OpCase& op_case : OpCases()) {
    for (const DType working : {DType::kFloat32, DType::kBFloat16}) {
      const auto a = op_case.run(bench, working);
      const auto b = op_case.run(bench, working);
      for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(RelativeDifference(a[i].values, b[i].values), 0) << op_case.name << ", " << a[i].name;
      }
    }
  }
}

}  // namespace
}  // namespace trireme
