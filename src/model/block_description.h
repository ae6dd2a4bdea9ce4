// A transformer block as data: the list of its operations in the order of forward, the values that pass between them,
// and the parameters that they read. This is the only description of a block. The parameter table, forward and
// backward, recomputation, the memory plan, FLOPs, traffic, the planner's seconds and inference all follow from it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/model_config.h"
#include "model/parameter.h"

namespace trireme {

enum class BlockOp : std::uint8_t {
  kNorm,        // output = norm(input) * weight + bias
  kEnter,       // into the tensor region: all tokens on every rank of the tensor group
  kLinear,      // output = input * weight^T + bias
  kHeadNorm,    // RMS norm of queries and keys
  kRotary,      // rotates queries and keys by their positions
  kAttention,   // output = causal attention of packed queries, keys and values
  kActivation,  // the activation function of the feed-forward part
  kLeave,       // out of the tensor region: partial sums of the ranks are added up
  kScale,       // output = input * factor
  kAdd,         // output = residual + dropout(input + bias)
  kRoute,       // output = which experts each token goes to and with which weights, by scores of the input
  kDispatch,    // output = the rows of the input for each expert
  kCombine,     // output = the sum of each token's rows (+ gate * added)
};

// The columns of a value. Inside the tensor region a rank holds its part of the widths of heads and feed-forward parts.
// kScores: one for each expert; kChoice: one for each expert that a token goes to; kGate: one.
enum class BlockWidth : std::uint8_t {
  kHidden,
  kQkv,
  kHeads,
  kFeedForwardIn,
  kFeedForward,
  kScores,
  kChoice,
  kGate,
  kExpertIn,
  kExpert
};

// The rows of a value: this rank's part of the tokens under sequence parallelism; all tokens of the micro batch in the
// tensor region; and there a row for each expert that a token goes to.
enum class BlockRegion : std::uint8_t { kOutside, kTensor, kExperts };

struct BlockValue {
  BlockWidth width = BlockWidth::kHidden;
  BlockRegion region = BlockRegion::kOutside;
};

// Numbers of values, and of parameters among those of the block; -1 is none.
struct BlockOperation {
  BlockOp op = BlockOp::kNorm;
  int input = -1;
  int residual = -1;  // of kAdd
  int output = -1;
  int weight = -1;  // kLinear: the matrix; kNorm: the gain
  int bias = -1;
  int key_gain = -1;      // of kHeadNorm, whose `weight` is the queries' gain
  bool together = false;  // of kHeadNorm: all heads are one group
  int site = -1;          // of kAdd: which dropout mask
  double factor = 1;      // of kScale
  int choice = -1;        // of operations on rows for experts: what kRoute made; a kLinear has a matrix for each expert
  int added = -1;         // of kCombine
  int gate = -1;          // likewise
  // Choices of a kRoute.
  RouterChoices router = {};
  bool balance = false;  // a loss balances the experts
  // A kLinear with an adapter computes output = input * weight^T + bias + scale * (input * A^T) * B^T.
  int adapter_a = -1;
  int adapter_b = -1;
};

// A row of the parameter table, without its module.
struct BlockParameter {
  std::string_view name;  // "attention.qkv.weight"
  ParameterRole role = ParameterRole::kWeight;
  Shape shape;  // global
  Split split;
  Initializer initializer = Initializer::kNormal;
  double deviation = 0;
  bool adapter = false;  // one of an adapter's two matrices
};

struct BlockDescription {
  std::vector<BlockOperation> operations;
  std::vector<BlockValue> values;  // 0 is the input; the output of the last operation is the block's
  // In the order of the parameter table. Left empty by DescribeOperations.
  std::vector<BlockParameter> parameters;
  // Rank of the adapters; 0: there are none. With them nothing else is trained: no operation makes a gradient of
  // another parameter.
  std::int64_t adapter_rank = 0;
  double adapter_scale = 1;

  bool frozen() const { return adapter_rank > 0; }
  // The operation that makes a value; -1 for the input.
  int MakerOf(int value) const;
};

// The block of a completed config, one with experts or a dense one (ModelConfig::IsSparse). `positions`: whether the
// layer has them where the family's are rotary; parameters do not depend on it. An Error when the family's choices
// exclude each other: post_norm and biases behind it.
BlockDescription DescribeBlock(const ModelConfig& model, bool sparse, bool positions = true);
// A description without the parameters' names and shapes: cheap, for the planner's many questions.
BlockDescription DescribeOperations(const ModelConfig& model, bool sparse, bool positions = true);

}  // namespace trireme
