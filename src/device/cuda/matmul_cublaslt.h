// Matrix products through cuBLASLt. The algorithm for a shape is chosen once: by measurement, or, where the context
// or the product asks for equal bits, as the library's first choice.
#pragma once

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "device/cuda/cuda_context.h"
#include "device/ops.h"

namespace trireme {

class CublasLtMatmul {
 public:
  // `context` must outlive the object.
  explicit CublasLtMatmul(CudaContext& context);
  ~CublasLtMatmul();

  // Computes `args`, or returns false, having done nothing, when the bias or epilogue is not the library's to do.
  // Asynchronous, except that the first call of a shape measures.
  bool Run(const MatmulArgs& args);
  // Multiplies for arguments without bias and epilogue, which the library must be able to do: an Error otherwise.
  void RunPlain(const MatmulArgs& args);

  // The algorithms in use that were measured, two lines each below a line that names library and GPU; in a
  // deterministic context those of all products but the ones that must be equal on ranks.
  std::string Choices() const;
  // Algorithms for shapes not met so far. Lines of another library or GPU, or that cannot be read, are left aside.
  void ReadChoices(const std::string& lines);

 private:
  static constexpr std::int64_t kWorkspaceBytes = std::int64_t{64} << 20;
  struct Plan;
  // What an algorithm depends on.
  using Key = std::array<std::int64_t, 10>;

  static Key KeyOf(const MatmulArgs& args);
  const Plan& PlanFor(const MatmulArgs& args);
  // The library's first choice, kept for a while: products of experts have other shapes in every step.
  const Plan& FirstChoiceFor(const MatmulArgs& args, const Key& key);
  // Everything of the plan but its algorithm.
  void Describe(const MatmulArgs& args, Plan& plan) const;
  void Choose(const MatmulArgs& args, const Key& key, Plan& plan);
  // The choice of an earlier run, where there is one that the library still takes.
  bool Recall(const Key& key, Plan& plan);
  std::string Origin() const;
  static std::string Story(const Key& key, const Plan& plan);
  void Measure(const MatmulArgs& args, Plan& plan, const cublasLtMatmulHeuristicResult_t* results, int count);
  // Milliseconds of a plan, measured now where it has not been; infinity where it turns out to be impossible.
  float TimeOf(const MatmulArgs& args, Plan& plan);
  // Milliseconds of a product without its activation function and a pass for that.
  float TimeApart(const MatmulArgs& args);
  // Milliseconds of the fastest of a few runs.
  float FastestRun(const std::function<void()>& work);
  // Milliseconds of the fastest of a few runs into `c`; negative when the algorithm fails.
  float Time(const MatmulArgs& args, Plan& plan, const cublasLtMatmulAlgo_t& algorithm, void* c);
  cublasStatus_t Execute(const MatmulArgs& args, const Plan& plan, const cublasLtMatmulAlgo_t& algorithm, void* c);

  CudaContext& context_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_;
  std::map<Key, std::unique_ptr<Plan>> first_choices_;           // of products that must be equal on ranks
  std::map<Key, std::optional<cublasLtMatmulAlgo_t>> recalled_;  // none: not to be done by the library
};

}  // namespace trireme
