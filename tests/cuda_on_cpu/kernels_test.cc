// Every case of the operations by itself, in bf16; and every kernel of the sources is launched by some case: one that
// none launches is not checked here at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "cuda_on_cpu/executor.h"
#include "cuda_on_cpu/segments.h"
#include "device/op_cases.h"

namespace trireme::cuda_on_cpu {
namespace {

// Numbers of the cases that have run in this process.
std::set<std::size_t>& CasesRun() {
  static std::set<std::size_t> numbers;
  return numbers;
}

void RunCase(const std::vector<OpCase>& cases, std::size_t number) {
  CasesRun().insert(number);
  const auto cpu = CpuForTest();
  const auto device = MakeDevice({.kind = "cuda"});
  for (const CaseDifference& difference : Compare(cases[number], *device, DType::kBFloat16, *cpu)) {
    EXPECT_LE(difference.difference, difference.tolerance) << difference.result;
  }
}

class Case : public testing::TestWithParam<std::size_t> {};

TEST_P(Case, AgreesWithTheCpu) { RunCase(OpCases(), GetParam()); }

INSTANTIATE_TEST_SUITE_P(Bf16, Case, testing::Range(std::size_t{0}, OpCases().size()), [](const auto& number) {
  return OpCases()[number.param].name + "_" + std::to_string(number.param);
});

// The functions declared __global__; not Probe, of which only the presence is asked for.
std::set<std::string> KernelsOfSources() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(TRIREME_SOURCE_DIR "/src/device/cuda")) {
    const std::string extension = entry.path().extension();
    if (extension != ".cu" && extension != ".cuh") {
      continue;
    }
    std::ifstream stream(entry.path());
    const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    const std::regex declared(R"(__global__\s+void\s+(?:__launch_bounds__\([^;{]*?\)\s+)?(\w+)\()");
    for (std::sregex_iterator it(text.begin(), text.end(), declared); it != std::sregex_iterator(); ++it) {
      names.insert((*it)[1]);
    }
  }
  names.erase("Probe");
  return names;
}

class Kernels : public testing::TestWithParam<int> {};

// After all of Case: cases that a filter has left out are run now. Segments of documents, which cuDNN alone asks for,
// are no operation.
TEST_P(Kernels, AreAllLaunchedByCases) {
  const std::set<std::string> declared = KernelsOfSources();
  ASSERT_GE(declared.size(), 30U);
  const std::vector<OpCase> cases = OpCases();
  for (std::size_t number = 0; number < cases.size(); ++number) {
    if (!CasesRun().contains(number)) {
      RunCase(cases, number);
    }
  }
  ExpectSegmentsCutWhereDocumentsBegin();
  std::set<std::string> run;
  for (const std::string& name : KernelsRun()) {
    run.insert(name.substr(name.rfind(':') == std::string::npos ? 0 : name.rfind(':') + 1));
  }
  std::vector<std::string> missing;
  std::ranges::set_difference(declared, run, std::back_inserter(missing));
  EXPECT_THAT(missing, testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(OfTheSources, Kernels, testing::Values(0));

}  // namespace
}  // namespace trireme::cuda_on_cpu
