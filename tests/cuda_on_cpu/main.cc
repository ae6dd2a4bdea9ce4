// Test programs on the simulated GPU. Findings fail the test that made them.
//   --seed N      the order of blocks, warps, lanes and streams: 1 (as without it) ascending, 2 descending, others
//   drawn
//   --case NAME   only this case of the operations, in every type (cuda_ops_on_cpu_test)
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "cuda_on_cpu/findings.h"
#include "cuda_on_cpu/one_case.h"

namespace trireme::cuda_on_cpu {
namespace {

class FindingsFail : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo& /*test*/) override { SetSeed(Seed()); }
  void OnTestEnd(const testing::TestInfo& /*test*/) override {
    for (const std::string& finding : TakeFindings()) {
      ADD_FAILURE() << finding << "\n(--seed " << Seed() << ")";
    }
  }
};

}  // namespace
}  // namespace trireme::cuda_on_cpu

int main(int count, char** arguments) {
  testing::InitGoogleTest(&count, arguments);
  std::string chosen;
  for (int i = 1; i < count; ++i) {
    const std::string option = arguments[i];
    if (option != "--seed" && option != "--case") {
      std::fprintf(stderr, "unknown option %s\n", arguments[i]);
      return 2;
    }
    if (++i == count) {
      std::fprintf(stderr, "%s has no value\n", option.c_str());
      return 2;
    }
    if (option == "--case") {
      chosen = arguments[i];
    } else {
      trireme::cuda_on_cpu::SetSeed(std::strtoull(arguments[i], nullptr, 10));
    }
  }
  std::printf("seed %llu\n", static_cast<unsigned long long>(trireme::cuda_on_cpu::Seed()));
  if (!chosen.empty()) {
    if (trireme::cuda_on_cpu::RunCase == nullptr) {
      std::fprintf(stderr, "this program has no cases\n");
      return 2;
    }
    return trireme::cuda_on_cpu::RunCase(chosen);
  }
  testing::UnitTest::GetInstance()->listeners().Append(new trireme::cuda_on_cpu::FindingsFail);
  return RUN_ALL_TESTS();
}
