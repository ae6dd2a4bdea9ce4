// Forms of products, and the sums of double that an engine's results are compared with.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/cpu/matmul.h"
#include "device/workbench.h"

namespace trireme {

struct NamedEngine {
  std::string name;
  std::unique_ptr<MatmulEngine> engine;
};

struct Form {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;
  bool bias = false;
  Epilogue epilogue = Epilogue::kNone;
  DType operands = kFloat;
  DType out = kFloat;

  std::string ToString() const;
};

MatmulArgs MakeArgs(Workbench& bench, const Form& form);
// c, and for gelu the auxiliary, after a run of `engine`; both written to new memory.
std::vector<std::vector<float>> Outputs(Workbench& bench, const Form& form, MatmulArgs args, MatmulEngine& engine);

// All transposes, types and ends that Ops::Matmul allows.
std::vector<Form> FormsOfSize(std::int64_t m, std::int64_t n, std::int64_t k);
// Compares every engine that multiplies the form's operands.
void ExpectSums(const std::vector<NamedEngine>& engines, const Form& form);

}  // namespace trireme
