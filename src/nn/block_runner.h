// Executes the steps of a BlockProgram: each is one call of an operation or of the tensor group. Used for training and
// for inference alike.
#pragma once

#include <span>
#include <vector>

#include "cost/block_program.h"
#include "model/rotary.h"
#include "nn/module.h"

namespace trireme {

// Keys and values of earlier tokens, for generation; see DecodeAttentionArgs. Without it attention is over the tokens
// of the call alone.
struct KeyValueCache {
  std::int64_t capacity = 0;
  Tensor keys;
  Tensor values;
  Tensor starts;
  Tensor positions;  // int32, of every token of the call
};

// The memory and the micro batch of one execution.
struct BlockCall {
  const MicroBatch& micro_batch;
  char* kept = nullptr;
  char* scratch = nullptr;
  Tensor output;
  Tensor grad_output;
  Tensor grad_input;
  KeyValueCache cache = {};
};

class BlockRunner {
 public:
  // `module` numbers the block for dropout masks, `rows` are the table's rows of its parameters in order. Everything
  // referred to outlives the runner. Without gradients only forward may be run.
  struct Context {
    Ops& ops;
    TensorRegion& region;
    ParameterSource& parameters;
    GradientSink* gradients = nullptr;
    const ModelConfig& model;
    Tensor slopes;
    RotaryAngles angles;
    std::int64_t module = 0;
    const std::vector<int>& rows;
  };
  BlockRunner(const Context& context, const LocalSizes& sizes, const BlockProgram& program)
      : context_(context), sizes_(sizes), program_(program) {}

  void Run(std::span<const BlockStep> steps, const BlockCall& call);

 private:
  struct Executor;

  const Context& context_;
  const LocalSizes& sizes_;
  const BlockProgram& program_;
};

}  // namespace trireme
