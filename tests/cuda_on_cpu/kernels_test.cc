// Every case of the operations by itself, in bf16 and fp32; and every kernel of the sources is launched by some case:
// one that none launches is not checked here at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "cuda_on_cpu/executor.h"
#include "cuda_on_cpu/segments.h"
#include "device/op_cases.h"

namespace trireme::cuda_on_cpu {
namespace {

// A case's number and the type that it works in.
using Chosen = std::tuple<std::size_t, DType>;

// Those that have run in this process.
std::set<Chosen>& CasesRun() {
  static std::set<Chosen> chosen;
  return chosen;
}

void RunCase(const std::vector<OpCase>& cases, const Chosen& chosen) {
  const auto [number, working] = chosen;
  CasesRun().insert(chosen);
  const auto cpu = CpuForTest();
  const auto device = MakeDevice({.kind = "cuda"});
  for (const CaseDifference& difference : Compare(cases[number], *device, working, *cpu)) {
    EXPECT_LE(difference.difference, difference.tolerance) << difference.result;
  }
}

class Case : public testing::TestWithParam<Chosen> {};

TEST_P(Case, AgreesWithTheCpu) { RunCase(OpCases(), GetParam()); }

std::string NameOf(const testing::TestParamInfo<Chosen>& info) {
  const std::size_t number = std::get<0>(info.param);
  return OpCases()[number].name + "_" + std::to_string(number);
}

const auto kAllCases = testing::Range(std::size_t{0}, OpCases().size());
INSTANTIATE_TEST_SUITE_P(Bf16, Case, testing::Combine(kAllCases, testing::Values(DType::kBFloat16)), NameOf);
INSTANTIATE_TEST_SUITE_P(Fp32, Case, testing::Combine(kAllCases, testing::Values(DType::kFloat32)), NameOf);

// The functions declared __global__; not Probe, of which only the presence is asked for. A declaration of another form
// stands for itself, and is a kernel that nothing launches.
std::set<std::string> KernelsOfSources() {
  static const std::regex form(R"(__global__\s+void\s+(?:__launch_bounds__\([^;{]*?\)\s+)?(\w+)\()");
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(TRIREME_SOURCE_DIR "/src/device/cuda")) {
    std::ifstream stream(entry.path());
    const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    for (std::size_t at = text.find("__global__"); at != std::string::npos; at = text.find("__global__", at + 1)) {
      std::smatch found;
      const auto begin = text.begin() + static_cast<std::ptrdiff_t>(at);
      const bool is_of_form = std::regex_search(begin, text.end(), found, form, std::regex_constants::match_continuous);
      names.insert(is_of_form ? found[1].str() : text.substr(at, text.find('\n', at) - at));
    }
  }
  names.erase("Probe");
  return names;
}

class Kernels : public testing::TestWithParam<int> {};

// After all of Case: cases that a filter has left out are run while a kernel is missing. Segments of documents, which
// cuDNN alone asks for, are no operation.
TEST_P(Kernels, AreAllLaunchedByCases) {
  const std::set<std::string> declared = KernelsOfSources();
  ASSERT_GE(declared.size(), 30U);
  ExpectSegmentsCutWhereDocumentsBegin();
  const auto missing = [&] {
    std::set<std::string> left = declared;
    for (const std::string& name : KernelsRun()) {
      left.erase(name.substr(name.rfind(':') == std::string::npos ? 0 : name.rfind(':') + 1));
    }
    return left;
  };
  const std::vector<OpCase> cases = OpCases();
  for (std::size_t number = 0; number < cases.size() && !missing().empty(); ++number) {
    const Chosen chosen{number, DType::kBFloat16};
    if (!CasesRun().contains(chosen)) {
      RunCase(cases, chosen);
    }
  }
  EXPECT_THAT(missing(), testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(OfTheSources, Kernels, testing::Values(0));

}  // namespace
}  // namespace trireme::cuda_on_cpu
