// Causal attention through cuDNN, for bf16 and fp16. Plans are made at the first call of a shape (up to a second or
// two) and kept. A program built without cuDNN has attention_cudnn_absent.cc, which supports no arguments.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>

#include "device/cuda/cuda_context.h"
#include "device/ops.h"

struct cudnnContext;  // cuDNN's, whose header only attention_cudnn.cc needs

namespace trireme {

class CudnnAttention {
 public:
  // `context` must outlive the object. The library is opened at the first use.
  explicit CudnnAttention(CudaContext& context);
  ~CudnnAttention();
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  // Whether these arguments are cuDNN's to do. Statistics are as defined in ops.h whichever kernel made them, so the
  // passes of one attention need not get the same answer.
  static bool Supports(const AttentionArgs& args);

  // False, with nothing done, when this GPU has no engine for the shape.
  bool Forward(const AttentionArgs& args);
  bool Backward(const AttentionArgs& args);

 private:
  struct Plan;
  using Key = std::array<std::int64_t, 9>;

  // Null when there is none.
  Plan* PlanFor(const AttentionArgs& args, bool backward);
  cudnnContext* Handle();

  CudaContext& context_;
  cudnnContext* handle_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace trireme
