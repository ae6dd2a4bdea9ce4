#include "model/parameter_table.h"

#include <algorithm>
#include <cassert>

#include "model/block_description.h"

namespace trireme {
namespace {

std::string BlockPrefix(std::int64_t layer) { return "block." + std::to_string(layer) + "."; }

// Appends rows, a block's as it is described. Lowering numbers the parameters of a module in this order.
class TableWriter {
 public:
  TableWriter(const ModelConfig& config, std::vector<Parameter>& rows, std::vector<std::vector<int>>& of_module)
      : config_(config), rows_(rows), of_module_(of_module) {}

  void Embedding() {
    module_ = 0;
    Matrix("embedding.token", ParameterRole::kTokenTable, {config_.vocabulary, config_.hidden}, VocabularySplit(),
           config_.initial_deviation);
    if (config_.position == PositionChoice::kLearned) {
      Matrix("embedding.position", ParameterRole::kPositionTable,
             {config_.sequence + config_.position_offset, config_.hidden}, {}, config_.initial_deviation);
    }
    if (config_.embedding_norm) {
      Norm("embedding.norm");
    }
  }

  void Block(const BlockDescription& block, std::int64_t layer) {
    module_ = layer + 1;
    const std::string prefix = BlockPrefix(layer);
    for (const BlockParameter& parameter : block.parameters) {
      Add({.name = prefix + std::string(parameter.name),
           .role = parameter.role,
           .shape = parameter.shape,
           .split = parameter.split,
           .initializer = parameter.initializer,
           .deviation = parameter.deviation,
           .decays = parameter.role == ParameterRole::kWeight,
           .frozen = block.frozen() && !parameter.adapter});
    }
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
    Constant(name + ".gain", ParameterRole::kNormGain, config_.hidden, {},
             config_.gain_offset == 0 ? Initializer::kOne : Initializer::kZero);
    if (config_.norm_bias) {
      Constant(name + ".bias", ParameterRole::kNormBias, config_.hidden, {}, Initializer::kZero);
    }
  }

  void Matrix(const std::string& name, ParameterRole role, const Shape& shape, const Split& split, double deviation) {
    Add({.name = name,
         .role = role,
         .shape = shape,
         .split = split,
         .initializer = Initializer::kNormal,
         .deviation = deviation,
         .decays = true,
         .frozen = config_.adapter.any()});
  }

  void Constant(const std::string& name, ParameterRole role, std::int64_t count, const Split& split,
                Initializer initializer) {
    Add({.name = name,
         .role = role,
         .shape = {count},
         .split = split,
         .initializer = initializer,
         .frozen = config_.adapter.any()});
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
  const BlockDescription dense = DescribeBlock(config_, false);
  const BlockDescription sparse = config_.experts.any() ? DescribeBlock(config_, true) : BlockDescription{};
  for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
    writer.Block(config_.IsSparse(layer) ? sparse : dense, layer);
  }
  writer.Head();
}

int ParameterTable::Find(const std::string& name) const {
  const auto row = std::find_if(rows_.begin(), rows_.end(), [&](const Parameter& one) { return one.name == name; });
  return row == rows_.end() ? -1 : static_cast<int>(row - rows_.begin());
}

int ParameterTable::InBlock(std::int64_t layer, std::string_view name) const {
  const std::size_t prefix = BlockPrefix(layer).size();
  for (const int row : OfModule(layer + 1)) {
    if (std::string_view(rows_[static_cast<std::size_t>(row)].name).substr(prefix) == name) {
      return row;
    }
  }
  return -1;
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
