// A transformer block of any family. What it does is a BlockProgram: model/block_description.cc names the operations,
// lowering/block_lowering.h makes steps of them, nn/block_runner.cc executes these.
#pragma once

#include "nn/block_runner.h"
#include "nn/module.h"

namespace trireme {

class Block : public Module {
 public:
  // layer counts from 0; `sizes` say what this block recomputes.
  Block(const ModuleContext& context, const LocalSizes& sizes, std::int64_t layer);

  std::int64_t kept_bytes() const override { return program_.kept_bytes; }
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
  BlockRunner::Context run_context_;
  BlockRunner runner_;
};

}  // namespace trireme
