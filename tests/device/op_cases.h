// Every operation on random operands and awkward shapes, as data: the same case runs on any device and in either
// working type. Results are compared with the plain CPU in fp32, which is the definition (law 7).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "device/workbench.h"

namespace trireme {

struct OpResult {
  std::string name;
  std::vector<float> values;
};

struct OpCase {
  std::string name;
  // Builds operands on the workbench's device in the working type, runs the operation and reads what it wrote.
  std::function<std::vector<OpResult>(Workbench&, DType working)> run;
  // Tolerances, as shares of the largest value of each result.
  double fp32_tolerance = 2e-5;
  double bf16_tolerance = 1.2e-2;
};

// All cases, by family.
std::vector<OpCase> OpCases();
std::vector<OpCase> MatmulCases();
std::vector<OpCase> Float8Cases();
std::vector<OpCase> NormCases();
std::vector<OpCase> ActivationCases();
std::vector<OpCase> AttentionCases();
std::vector<OpCase> ChunkCases();
std::vector<OpCase> VocabularyCases();
std::vector<OpCase> UpdateCases();
std::vector<OpCase> ExpertCases();

// Gives `args` the bias (in `working`, if `bias`) and the auxiliary tensor that its epilogue takes, multiplies, and
// reads what was written.
std::vector<OpResult> MultiplyWithEpilogue(Workbench& bench, DType working, bool bias, MatmulArgs args);

struct CaseDifference {
  std::string result;
  double difference = 0;
  double tolerance = 0;
};

// Runs `op_case` on `device` in `working` and on `reference` in fp32; one entry for each result.
std::vector<CaseDifference> Compare(const OpCase& op_case, Device& device, DType working, Device& reference);
// Compares with results that `op_case` gave in fp32 before: for several devices and types.
std::vector<CaseDifference> Compare(const OpCase& op_case, Device& device, DType working,
                                    const std::vector<OpResult>& expected);

}  // namespace trireme
