// The forward pass of a whole model on a tensor group: over whole sequences, as training does it, or over new tokens
// with the keys and values of earlier ones kept in a cache. Blocks run the forward of the program that training runs.
// One object per rank; every rank makes the same calls with the same values and gets the same results.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/rank_runner.h"
#include "infer/model_weights.h"
#include "lowering/local_sizes.h"
#include "lowering/module_program.h"
#include "model/rotary.h"
#include "nn/micro_batch.h"

namespace trireme {

struct InferenceOptions {
  DType dtype = DType::kFloat32;
  std::int64_t batch = 1;     // sequences at once
  std::int64_t rows = 1;      // tokens of one call, over all sequences
  std::int64_t capacity = 0;  // positions of a sequence in the cache; 0: no cache
  // In RunWhole positions begin anew with every document, as data.document_positions has them in training.
  bool document_positions = false;
};

class InferenceModel {
 public:
  // Collective over the context's world, which is the tensor group: its size must divide heads and feed-forward. Reads
  // the weights at the path `weights` (see OpenWeights), whose model is `model`. The context outlives this.
  InferenceModel(const ModelConfig& model, const std::string& weights, RankContext& context,
                 const InferenceOptions& options);

  // Whole sequences: tokens [batch, T] for any T. document_starts [batch, T] as AttentionArgs has it, or empty.
  void RunWhole(std::int64_t batch, std::span<const std::int32_t> tokens,
                std::span<const std::int32_t> document_starts = {});
  // New tokens [options.batch, Q] at positions starts[b] …, after those already in the cache. Tokens at or past the
  // capacity are padding. What lies in the cache past a sequence's last real token is overwritten by its next ones.
  void RunCached(std::span<const std::int32_t> tokens, std::span<const std::int32_t> starts);

  // Logits of rows (numbers of tokens) of the last run: [rows, vocabulary], at most options.batch rows.
  std::vector<float> Logits(std::span<const std::int32_t> rows);
  // -log p(target) after each token of the last run.
  std::vector<float> Losses(std::span<const std::int32_t> targets);

  const ModelConfig& model() const { return model_; }
  const InferenceOptions& options() const { return options_; }
  const MemoryUse& memory() const { return arena_.used(); }

 private:
  struct Buffers {
    Tensor tokens, positions, starts, document_starts, targets;  // int32
    Tensor x, normed, chosen;                                    // [rows, C]
    Tensor norm_statistics;                                      // fp32
    Tensor block_scratch;                                        // of the blocks' program
    Tensor logits, gathered_logits, loss_statistics, losses;     // fp32
    Tensor slopes;
    Tensor keys, values;  // [layers, batch, capacity, Hkv * D]
  };
  struct Planned {
    Tensor Buffers::*place;
    MemoryKind kind;
    DType dtype;
    Shape shape;
  };
  // What one run works on; documents only for whole sequences.
  struct Run {
    std::int64_t batch = 0;
    std::int64_t queries = 0;
    bool cached = false;
    bool documents = false;
    std::int64_t rows() const { return batch * queries; }
  };

  std::vector<Planned> Plan() const;
  std::int64_t LargestScratch() const;
  MemoryUse PlannedMemory() const;
  void Upload(const Tensor& to, std::span<const std::int32_t> values);
  void Forward(const Run& run);
  void Embed(const Run& run);
  void RunBlock(const Run& run, std::int64_t layer);
  // The blocks' programs for a run: the shapes are its own, the offsets those of the largest ones.
  void SetPrograms(const Run& run);
  // Sets the angles of each layer, for sequences as long as the run's.
  void SetAngles(const Run& run);
  // Runs steps of the embedding or the head; given: the program's buffers.
  void Execute(const ModuleProgram& program, std::span<const ProgramStep> steps, const MicroBatch& tokens,
               std::span<const Tensor> given);
  // The head's buffers for the last run.
  std::vector<Tensor> HeadBuffers() const;
  Tensor Rows(const Tensor& buffer, const Run& run) const { return buffer.Rows(0, run.rows()); }

  ModelConfig model_;
  InferenceOptions options_;
  Communicator& group_;
  Device& device_;
  Ops& ops_;
  ParameterTable table_;
  LocalSizes sizes_;  // of the last run
  std::int64_t logit_rows_;
  // The programs of dense blocks and of those with experts, with positions and without, for options.rows rows; empty
  // where the model has none.
  std::array<ModuleProgram, 4> largest_;
  Arena arena_;
  ModelWeights weights_;
  std::vector<RotaryAngles> angles_;  // of each layer
  bool long_angles_ = false;          // they are those of long sequences
  Buffers at_;
  std::array<ModuleProgram, 4> programs_;  // likewise, for the last run
  Run last_;
};

}  // namespace trireme
