// One row a parameter: what it is called, its global unpadded shape, how the tensor axis cuts it, how it starts,
// whether it decays. Everything that places parameters (weights, ZeRO shards, checkpoints, the planner) reads this
// table.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"
#include "model/model_config.h"
#include "model/parameter.h"

namespace trireme {

struct Parameter {
  std::string name;  // "block.3.attention.qkv.weight": equal under every layout
  ParameterRole role = ParameterRole::kWeight;
  Shape shape;  // global, unpadded; weights are [out, in]
  std::int64_t module = 0;
  Split split;
  Initializer initializer = Initializer::kNormal;
  double deviation = 0;  // of kNormal
  bool decays = false;   // by role: token tables, position tables and weights do; gains and biases do not
  bool frozen = false;   // not trained: no gradient, no optimizer state (a model with adapters trains these alone)
};

// Parameters of one module have fixed places, so that code and files can name them without strings.
class ParameterTable {
 public:
  explicit ParameterTable(const ModelConfig& config);

  const std::vector<Parameter>& rows() const { return rows_; }
  const ModelConfig& config() const { return config_; }
  // Indices into rows() of a module's own parameters, in order. A tied head has no output weight of its own.
  const std::vector<int>& OfModule(std::int64_t module) const { return of_module_[static_cast<std::size_t>(module)]; }
  // Index of the token table (always a parameter of module 0).
  int token_table() const { return token_table_; }
  // True for the token table of a tied model: the head uses it too.
  bool Tied(int row) const { return config_.tie_embeddings && row == token_table_; }
  // Index by name; -1 when there is none.
  int Find(const std::string& name) const;
  // Index of the parameter of a block that DescribeBlock names so ("mlp.in.bias"); -1 when the family has none.
  int InBlock(std::int64_t layer, std::string_view name) const;

 private:
  ModelConfig config_;
  std::vector<Parameter> rows_;
  std::vector<std::vector<int>> of_module_;
  int token_table_ = 0;
};

// Rows of the vocabulary that each of `tensor` ranks holds, padding included: the smallest multiple of 8 that covers
// an equal part.
std::int64_t PaddedShare(std::int64_t vocabulary, int tensor);

// Shape that each of `tensor` ranks holds, padding included.
Shape LocalShape(const Parameter& parameter, int tensor);

// A contiguous run of a slice: elements [local, local + count) of what a rank holds are elements
// [global, global + count) of the parameter. Elements of a slice that lie in no run are padding and stay zero.
struct SliceRun {
  std::int64_t local = 0;
  std::int64_t global = 0;
  std::int64_t count = 0;
};
// In ascending order of `local`.
std::vector<SliceRun> SliceRuns(const Parameter& parameter, int tensor, int tensor_rank);

}  // namespace trireme
