// Executes the steps of a ModuleProgram, in training and in inference.
#pragma once

#include <span>
#include <vector>

#include "comm/communicator.h"
#include "lowering/module_program.h"
#include "model/rotary.h"
#include "nn/micro_batch.h"
#include "nn/parameters.h"

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
struct ProgramCall {
  const MicroBatch& micro_batch;
  char* kept = nullptr;
  char* scratch = nullptr;
  char* weights = nullptr;             // ModuleProgram::weight_bytes, the same for all micro batches
  std::span<const Tensor> given = {};  // buffers whose area is kGiven, by number; outlive the call
  KeyValueCache cache = {};
};

class ProgramRunner {
 public:
  // `module` numbers the module for dropout masks, `rows` are the table's rows of its parameters in order. Everything
  // referred to outlives the runner. Without gradients only forward may be run.
  struct Context {
    Ops& ops;
    Communicator& tensor_group;
    ParameterSource& parameters;
    GradientSink* gradients = nullptr;
    const ModelConfig& model;
    Tensor slopes;
    RotaryAngles angles;
    std::int64_t module = 0;
    const std::vector<int>& rows;
    float z_loss = 0;
    Communicator* sequence_group = nullptr;  // the context axis; needed where its degree is above 1
    Communicator* heads_group = nullptr;     // of it, the ranks that Ulysses divides heads among
    Communicator* ring_group = nullptr;      // of it, the ranks whose keys pass by
    Device* device = nullptr;                // see ModuleContext
  };
  ProgramRunner(const Context& context, const LocalSizes& sizes, const ModuleProgram& program);

  void Run(std::span<const ProgramStep> steps, const ProgramCall& call);

 private:
  struct Executor;

  const Context& context_;
  const LocalSizes& sizes_;
  const LocalSizes attention_sizes_;  // sizes_.OfAttention()
  const ModuleProgram& program_;
  // Where queries stand and where keys lie under context parallelism: see AttentionArgs.
  std::vector<std::int64_t> query_chunks_;
  std::vector<KeyChunk> key_chunks_;
};

}  // namespace trireme
