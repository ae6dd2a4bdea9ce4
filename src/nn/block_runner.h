// Executes the steps of a BlockProgram: each is one call of an operation or of the tensor group. Used for training and
// for inference alike.
#pragma once

#include <span>
#include <vector>

#include "lowering/block_program.h"
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
  char* weights = nullptr;  // BlockProgram::weight_bytes, the same for all micro batches
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
    Communicator* sequence_group = nullptr;  // the context axis; needed where its degree is above 1
    Communicator* heads_group = nullptr;     // of it, the ranks that Ulysses divides heads among
    Communicator* ring_group = nullptr;      // of it, the ranks whose keys pass by
    Device* device = nullptr;                // see ModuleContext
  };
  BlockRunner(const Context& context, const LocalSizes& sizes, const BlockProgram& program);

  void Run(std::span<const BlockStep> steps, const BlockCall& call);

 private:
  struct Executor;

  const Context& context_;
  const LocalSizes& sizes_;
  const LocalSizes attention_sizes_;  // sizes_.OfAttention()
  const BlockProgram& program_;
  // Where queries stand and where keys lie under context parallelism: see AttentionArgs.
  std::vector<std::int64_t> query_chunks_;
  std::vector<KeyChunk> key_chunks_;
};

}  // namespace trireme
