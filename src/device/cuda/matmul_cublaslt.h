// Matrix products through cuBLASLt. The algorithm for a shape is chosen once: by measurement, or, where the context
// asks for equal bits, as the library's first choice.
#pragma once

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>

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
  // The same for arguments without bias and epilogue, which the library must be able to do: an Error otherwise.
  void RunPlain(const MatmulArgs& args);

 private:
  struct Plan;
  using Key = std::array<std::int64_t, 9>;

  const Plan& PlanFor(const MatmulArgs& args);
  void Choose(const MatmulArgs& args, std::int64_t alignment, Plan& plan);
  void Measure(const MatmulArgs& args, Plan& plan, const cublasLtMatmulHeuristicResult_t* results, int count);
  // Milliseconds of the fastest of a few runs into `c`; negative when the algorithm fails.
  float Time(const MatmulArgs& args, Plan& plan, const cublasLtMatmulAlgo_t& algorithm, void* c);
  cublasStatus_t Execute(const MatmulArgs& args, const Plan& plan, const cublasLtMatmulAlgo_t& algorithm, void* c);

  CudaContext& context_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace trireme
