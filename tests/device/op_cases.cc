#include "device/op_cases.h"

#include <algorithm>
#include <iterator>

namespace trireme {

std::vector<OpCase> OpCases() {
  std::vector<OpCase> all;
  for (const auto& family : {MatmulCases, Float8Cases, NormCases, ActivationCases, AttentionCases, ChunkCases,
                             VocabularyCases, UpdateCases, ExpertCases}) {
    std::vector<OpCase> cases = family();
    std::move(cases.begin(), cases.end(), std::back_inserter(all));
  }
  return all;
}

std::vector<CaseDifference> Compare(const OpCase& op_case, Device& device, DType working, Device& reference) {
  Workbench bench(reference);
  return Compare(op_case, device, working, op_case.run(bench, DType::kFloat32));
}

std::vector<CaseDifference> Compare(const OpCase& op_case, Device& device, DType working,
                                    const std::vector<OpResult>& expected) {
  Workbench bench(device);
  const std::vector<OpResult> actual = op_case.run(bench, working);
  // fp8 copies are made of bf16 exactly; of fp16 its smallest numbers are rounded.
  const double half = std::max({op_case.bf16_tolerance / 4, op_case.fp32_tolerance, 1e-3});
  const double tolerance = working == DType::kBFloat16  ? op_case.bf16_tolerance
                           : working == DType::kFloat16 ? half
                                                        : op_case.fp32_tolerance;
  std::vector<CaseDifference> differences;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    differences.push_back({expected[i].name, RelativeDifference(actual.at(i).values, expected[i].values), tolerance});
  }
  return differences;
}

}  // namespace trireme
