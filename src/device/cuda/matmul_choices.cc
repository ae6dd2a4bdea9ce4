// Chosen algorithms as text: "cuBLASLt 130100, NVIDIA H200", then for each product a line for people that begins with
// #, and one of its key's numbers, '=', and the algorithm's words in hexadecimal, or "none" where the product is not
// left to the library as a whole.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <iterator>
#include <sstream>

#include "device/cuda/cuda_check.h"
#include "device/cuda/matmul_plan.h"

namespace trireme {
namespace {

constexpr std::size_t kAlgorithmWords = std::size(cublasLtMatmulAlgo_t{}.data);

int NumberOf(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t name) {
  int value = -1;
  cublasLtMatmulAlgoConfigGetAttribute(&algorithm, name, &value, sizeof(value), nullptr);
  return value;
}

}  // namespace

// "# a bf16 [4096, 64] transposed, b bf16 [4096, 256], c fp32, accumulated: algorithm 66, tile 20, stages 36, split 1,
// 0.12 ms"
std::string CublasLtMatmul::Story(const Key& key, const Plan& plan) {
  constexpr const char* kEpilogues[] = {"", ", gelu", ", gelu's gradient", ", residual"};
  const auto type = [&](std::size_t at) { return Name(static_cast<DType>(key[at])); };
  const auto flag = [&](std::int64_t bit, const char* text) { return (key[4] & bit) != 0 ? text : ""; };
  std::string text =
      fmt::format("# a {} [{}, {}]{}, b {} [{}, {}]{}, c {}{}{}{}: ", type(5), key[0], key[1], flag(1, " transposed"),
                  type(6), key[2], key[3], flag(2, " transposed"), type(7), flag(4, ", accumulated"), flag(8, ", bias"),
                  kEpilogues[static_cast<std::size_t>(key[8])]);
  if (!plan.possible) {
    return text + "not in one product of the library\n";
  }
  text += fmt::format("algorithm {}, tile {}, stages {}, split {}", NumberOf(plan.algorithm, CUBLASLT_ALGO_CONFIG_ID),
                      NumberOf(plan.algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID),
                      NumberOf(plan.algorithm, CUBLASLT_ALGO_CONFIG_STAGES_ID),
                      NumberOf(plan.algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
  return text + (plan.milliseconds > 0 ? fmt::format(", {:.3f} ms\n", plan.milliseconds) : std::string("\n"));
}

std::string CublasLtMatmul::Origin() const {
  cudaDeviceProp properties{};
  CheckCuda(cudaGetDeviceProperties(&properties, context_.device()), "read the GPU's properties");
  return fmt::format("cuBLASLt {}, {}", cublasLtGetVersion(), properties.name);
}

std::string CublasLtMatmul::Choices() const {
  std::string lines = Origin() + "\n";
  for (const auto& [key, plan] : plans_) {
    lines += Story(key, *plan);
    lines += plan->possible ? fmt::format("{} = {:x}\n", fmt::join(key, " "), fmt::join(plan->algorithm.data, " "))
                            : fmt::format("{} = none\n", fmt::join(key, " "));
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
    words >> equals;
    if (!words || equals != "=") {
      continue;
    }
    if (line.ends_with(" none")) {
      recalled_[key] = std::nullopt;
      continue;
    }
    words >> std::hex;
    for (std::size_t i = 0; i < kAlgorithmWords; ++i) {
      words >> algorithm.data[i];
    }
    if (words) {
      recalled_[key] = algorithm;
    }
  }
}

bool CublasLtMatmul::Recall(const Key& key, Plan& plan) {
  const auto found = recalled_.find(key);
  if (found == recalled_.end()) {
    return false;
  }
  if (!found->second) {
    plan.possible = false;
    return true;
  }
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(handle_, plan.product, plan.b.get(), plan.a.get(), plan.c.get(),
                                                        plan.c.get(), &*found->second, &result);
  if (status != CUBLAS_STATUS_SUCCESS || result.workspaceSize > static_cast<std::size_t>(kWorkspaceBytes)) {
    return false;
  }
  plan.algorithm = *found->second;
  plan.possible = true;
  return true;
}

}  // namespace trireme
