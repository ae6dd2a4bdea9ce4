// A transformer block of any family. What it does is a BlockProgram: model/block_description.cc names the operations,
// lowering/block_lowering.h makes steps of them, nn/block_runner.cc executes these.
#pragma once

#include "nn/block_runner.h"
#include "nn/module.h"

namespace trireme {

class Block : public Module {
 public:
  // layer counts from 0; `sizes` say what this block recomputes. weights: memory of weight_bytes() for fp8 copies of
  // weights, with any contents, which outlives the block; the forward of a step's first micro batch fills it.
  Block(const ModuleContext& context, const LocalSizes& sizes, std::int64_t layer, char* weights = nullptr);

  std::int64_t kept_bytes() const override { return program_.kept_bytes; }
  std::int64_t weight_bytes() const { return program_.weight_bytes; }
  Tensor Input(char* kept) const override { return TensorAt(program_.buffers[kBlockInput], kept, nullptr); }
  void Forward(const MicroBatch& micro_batch, char* kept, const Tensor& out) override;
  // A block whose backward is not in parts does both here.
  Tensor BackwardInput(const MicroBatch& micro_batch, char* kept, const Tensor& grad_out,
                       const Tensor& grad_in) override;
  void BackwardWeight(const MicroBatch& micro_batch, char* kept) override;
  Uses uses() const override;

 private:
  ModuleContext context_;
  LocalSizes sizes_;
  BlockProgram program_;
  char* weights_;
  BlockRunner::Context run_context_;
  BlockRunner runner_;
};

}  // namespace trireme
