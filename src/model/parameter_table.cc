#include "model/parameter_table.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace trireme {
namespace {

// Appends rows in the fixed order of parameter_places.h.
class TableWriter {
 public:
  TableWriter(const ModelConfig& config, std::vector<Parameter>& rows, std::vector<std::vector<int>>& of_module)
      : config_(config), rows_(rows), of_module_(of_module) {}

  void Embedding() {
    module_ = 0;
    Matrix("embedding.token", ParameterRole::kTokenTable, {config_.vocabulary, config_.hidden}, VocabularySplit(),
           config_.initial_deviation);
    if (config_.position == PositionChoice::kLearned) {
      Matrix("embedding.position", ParameterRole::kPositionTable, {config_.sequence, config_.hidden}, {},
             config_.initial_deviation);
    }
    if (config_.embedding_norm) {
      Norm("embedding.norm");
    }
  }

  void Block(std::int64_t layer) {
    module_ = layer + 1;
    const std::string prefix = "block." + std::to_string(layer) + ".";
    const std::int64_t queries = config_.heads * config_.head_size();
    const std::int64_t keys = config_.kv_heads * config_.head_size();
    // Two branches a layer add to the residual stream: their last matrices start smaller, so that its size stays one.
    const double out_deviation = config_.initial_deviation / std::sqrt(2.0 * static_cast<double>(config_.layers));
    Norm(prefix + "attention.norm");
    Cut(prefix + "attention.qkv", {.dim = 0, .segments = {queries, keys, keys}}, config_.hidden);
    Joined(prefix + "attention.out", queries, out_deviation);
    Norm(prefix + "mlp.norm");
    const bool gated = config_.feed_forward == FeedForwardChoice::kSwiGlu;
    Cut(prefix + "mlp.in",
        {.dim = 0,
         .segments =
             gated ? std::vector<std::int64_t>{config_.ffn, config_.ffn} : std::vector<std::int64_t>{config_.ffn}},
        config_.hidden);
    Joined(prefix + "mlp.out", config_.ffn, out_deviation);
  }

  void Head() {
    module_ = config_.layers + 1;
    Norm("head.norm");
    if (!config_.tie_embeddings) {
      Matrix("head.weight", ParameterRole::kWeight, {config_.vocabulary, config_.hidden}, VocabularySplit(),
             config_.initial_deviation);
    }
  }

 private:
  Split VocabularySplit() const { return {.dim = 0, .segments = {config_.vocabulary}, .padded = true}; }

  void Norm(const std::string& name) {
    Constant(name + ".gain", ParameterRole::kNormGain, config_.hidden, {}, Initializer::kOne);
    if (config_.biases) {
      Constant(name + ".bias", ParameterRole::kNormBias, config_.hidden, {}, Initializer::kZero);
    }
  }

  // A linear layer whose outputs are cut.
  void Cut(const std::string& name, const Split& split, std::int64_t inputs) {
    std::int64_t outputs = 0;
    for (const std::int64_t segment : split.segments) {
      outputs += segment;
    }
    Matrix(name + ".weight", ParameterRole::kWeight, {outputs, inputs}, split, config_.initial_deviation);
    if (config_.biases) {
      Constant(name + ".bias", ParameterRole::kBias, outputs, split, Initializer::kZero);
    }
  }

  // A linear layer whose inputs are cut; its bias is added after the sum, so every rank holds it.
  void Joined(const std::string& name, std::int64_t inputs, double deviation) {
    Matrix(name + ".weight", ParameterRole::kWeight, {config_.hidden, inputs}, {.dim = 1, .segments = {inputs}},
           deviation);
    if (config_.biases) {
      Constant(name + ".bias", ParameterRole::kBias, config_.hidden, {}, Initializer::kZero);
    }
  }

  void Matrix(const std::string& name, ParameterRole role, const Shape& shape, const Split& split, double deviation) {
    Add({.name = name,
         .role = role,
         .shape = shape,
         .split = split,
         .initializer = Initializer::kNormal,
         .deviation = deviation,
         .decays = true});
  }

  void Constant(const std::string& name, ParameterRole role, std::int64_t count, const Split& split,
                Initializer initializer) {
    Add({.name = name, .role = role, .shape = {count}, .split = split, .initializer = initializer});
  }

  void Add(Parameter parameter) {
    parameter.module = module_;
    of_module_[static_cast<std::size_t>(module_)].push_back(static_cast<int>(rows_.size()));
    rows_.push_back(std::move(parameter));
  }

  const ModelConfig& config_;
  std::vector<Parameter>& rows_;
  std::vector<std::vector<int>>& of_module_;
  std::int64_t module_ = 0;
};

}  // namespace

std::string Name(ParameterRole role) {
  switch (role) {
    case ParameterRole::kTokenTable:
      return "token_table";
    case ParameterRole::kPositionTable:
      return "position_table";
    case ParameterRole::kNormGain:
      return "norm_gain";
    case ParameterRole::kNormBias:
      return "norm_bias";
    case ParameterRole::kWeight:
      return "weight";
    case ParameterRole::kBias:
      return "bias";
  }
  return "?";
}

ParameterTable::ParameterTable(const ModelConfig& config)
    : config_(config), of_module_(static_cast<std::size_t>(config.modules())) {
  TableWriter writer(config_, rows_, of_module_);
  writer.Embedding();
  for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
    writer.Block(layer);
  }
  writer.Head();
}

int ParameterTable::Find(const std::string& name) const {
  const auto row = std::find_if(rows_.begin(), rows_.end(), [&](const Parameter& one) { return one.name == name; });
  return row == rows_.end() ? -1 : static_cast<int>(row - rows_.begin());
}

std::int64_t PaddedShare(std::int64_t vocabulary, int tensor) { return RoundUp(CeilDiv(vocabulary, tensor), 8); }

Shape LocalShape(const Parameter& parameter, int tensor) {
  Shape shape = parameter.shape;
  const Split& split = parameter.split;
  if (split.replicated()) {
    return shape;
  }
  shape[split.dim] = split.padded ? PaddedShare(shape[split.dim], tensor) : shape[split.dim] / tensor;
  return shape;
}

std::vector<SliceRun> SliceRuns(const Parameter& parameter, int tensor, int tensor_rank) {
  const Shape& shape = parameter.shape;
  const Split& split = parameter.split;
  if (split.replicated()) {
    return {{.local = 0, .global = 0, .count = shape.count()}};
  }
  const std::int64_t local_extent = LocalShape(parameter, tensor)[split.dim];
  std::int64_t outer = 1;
  for (int dim = 0; dim < split.dim; ++dim) {
    outer *= shape[dim];
  }
  const std::int64_t inner = shape.count() / outer / shape[split.dim];

  std::vector<SliceRun> runs;
  const auto add = [&](const SliceRun& run) {
    const bool continues = !runs.empty() && runs.back().local + runs.back().count == run.local &&
                           runs.back().global + runs.back().count == run.global;
    if (continues) {
      runs.back().count += run.count;
    } else if (run.count > 0) {
      runs.push_back(run);
    }
  };
  for (std::int64_t row = 0; row < outer; ++row) {
    std::int64_t local = row * local_extent;
    std::int64_t global = row * shape[split.dim];
    for (const std::int64_t segment : split.segments) {
      const std::int64_t share = split.padded ? local_extent : segment / tensor;
      const std::int64_t first = std::min(segment, share * tensor_rank);
      const std::int64_t last = std::min(segment, first + share);
      add({.local = local * inner, .global = (global + first) * inner, .count = (last - first) * inner});
      local += share;
      global += segment;
    }
  }
  return runs;
}

}  // namespace trireme
