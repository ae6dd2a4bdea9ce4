#include "cuda_on_cpu/one_case.h"

#include <cstdio>
#include <exception>

#include "cuda_on_cpu/findings.h"
#include "device/op_cases.h"

namespace trireme::cuda_on_cpu {
namespace {

bool RunIn(DType working, bool deterministic, const OpCase& op_case) {
  const auto cpu = CpuForTest();
  const auto device = MakeDevice({.kind = "cuda", .deterministic = deterministic});
  bool good = true;
  for (const CaseDifference& difference : Compare(op_case, *device, working, *cpu)) {
    const bool agrees = difference.difference <= difference.tolerance;
    good = good && agrees;
    std::printf("%s%s, %s: difference %.2e, at most %.2e%s\n", std::string(Name(working)).c_str(),
                deterministic ? ", deterministic" : "", difference.result.c_str(), difference.difference,
                difference.tolerance, agrees ? "" : ": TOO LARGE");
  }
  return good;
}

}  // namespace

int RunCase(const std::string& name) {
  bool found = false;
  bool good = true;
  for (const OpCase& op_case : OpCases()) {
    if (op_case.name != name) {
      continue;
    }
    found = true;
    for (const DType working : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      for (const bool deterministic : {false, true}) {
        try {
          good = RunIn(working, deterministic, op_case) && good;
        } catch (const std::exception& error) {
          std::printf("%s\n", error.what());
          good = false;
        }
      }
    }
  }
  if (!found) {
    std::printf("no case '%s'; there are:\n", name.c_str());
    for (const OpCase& op_case : OpCases()) {
      std::printf("  %s\n", op_case.name.c_str());
    }
    return 2;
  }
  for (const std::string& finding : TakeFindings()) {
    std::printf("%s\n", finding.c_str());
    good = false;
  }
  return good ? 0 : 1;
}

}  // namespace trireme::cuda_on_cpu
