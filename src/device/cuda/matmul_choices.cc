// Chosen algorithms as text: "cuBLASLt 130100, NVIDIA H200", then lines of a key's numbers, '=', and the algorithm's
// words in hexadecimal.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <iterator>
#include <sstream>

#include "device/cuda/cuda_check.h"
#include "device/cuda/matmul_plan.h"

namespace trireme {
namespace {

constexpr std::size_t kWords = std::size(cublasLtMatmulAlgo_t{}.data);

}  // namespace

std::string CublasLtMatmul::Origin() const {
  cudaDeviceProp properties{};
  CheckCuda(cudaGetDeviceProperties(&properties, context_.device()), "read the GPU's properties");
  return fmt::format("cuBLASLt {}, {}", cublasLtGetVersion(), properties.name);
}

std::string CublasLtMatmul::Choices() const {
  std::string lines = Origin() + "\n";
  for (const auto& [key, plan] : plans_) {
    if (plan->possible) {
      lines += fmt::format("{} = {:x}\n", fmt::join(key, " "), fmt::join(plan->algorithm.data, " "));
    }
  }
  return lines;
}

void CublasLtMatmul::ReadChoices(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line) || line != Origin()) {
    return;
  }
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    Key key{};
    cublasLtMatmulAlgo_t algorithm{};
    std::string equals;
    for (std::int64_t& number : key) {
      words >> number;
    }
    words >> equals >> std::hex;
    for (std::size_t i = 0; i < kWords; ++i) {
      words >> algorithm.data[i];
    }
    if (words && equals == "=") {
      recalled_[key] = algorithm;
    }
  }
}

bool CublasLtMatmul::Recall(const Key& key, Plan& plan) {
  const auto found = recalled_.find(key);
  if (found == recalled_.end()) {
    return false;
  }
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(handle_, plan.product, plan.b.get(), plan.a.get(), plan.c.get(),
                                                        plan.c.get(), &found->second, &result);
  if (status != CUBLAS_STATUS_SUCCESS || result.workspaceSize > static_cast<std::size_t>(kWorkspaceBytes)) {
    return false;
  }
  plan.algorithm = found->second;
  plan.possible = true;
  return true;
}

}  // namespace trireme
