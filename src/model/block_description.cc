#include "model/block_description.h"

#include <cmath>

#include "base/error.h"

namespace trireme {
namespace {

using enum BlockOp;
using enum BlockRegion;
using enum BlockWidth;

// A linear layer or a norm: numbers of its parameters, -1 for a bias that the family does not have.
struct Layer {
  int weight = -1;
  int bias = -1;
};

// The two matrices of an adapter, -1 for a product without one.
struct AdapterPair {
  int a = -1;
  int b = -1;
};

// The parameters of a product. `name` is what recipes call it.
struct ProductNames {
  std::string_view name;
  std::string_view weight;
  std::string_view bias;
  std::string_view adapter_a;
  std::string_view adapter_b;
};
constexpr ProductNames kQkvProduct = {"attention.qkv", "attention.qkv.weight", "attention.qkv.bias",
                                      "attention.qkv.lora_a", "attention.qkv.lora_b"};
constexpr ProductNames kAttentionOut = {"attention.out", "attention.out.weight", "attention.out.bias",
                                        "attention.out.lora_a", "attention.out.lora_b"};
constexpr ProductNames kMlpIn = {"mlp.in", "mlp.in.weight", "mlp.in.bias", "mlp.in.lora_a", "mlp.in.lora_b"};
constexpr ProductNames kMlpOut = {"mlp.out", "mlp.out.weight", "mlp.out.bias", "mlp.out.lora_a", "mlp.out.lora_b"};
// Without biases and adapters.
constexpr ProductNames kSharedIn = {"shared.in", "shared.in.weight", "", "", ""};
constexpr ProductNames kSharedOut = {"shared.out", "shared.out.weight", "", "", ""};

// The parameters of the norm after a branch.
struct BranchNorm {
  std::string_view gain;
  std::string_view bias;
};

// Appends operations to a description. Each function returns the value that it makes.
class Writer {
 public:
  Writer(const ModelConfig& model, bool with_parameters) : model_(model), with_parameters_(with_parameters) {
    block_.operations.reserve(16);
    block_.values.reserve(16);
    block_.values.push_back({});
    block_.adapter_rank = model.adapter.rank;
    block_.adapter_scale = model.adapter.scale();
  }

  int Norm(int x, std::string_view gain, std::string_view bias) {
    const Layer norm = {Add(Vector(gain, ParameterRole::kNormGain, GainStart())),
                        AddBias(model_.norm_bias, Vector(bias, ParameterRole::kNormBias, Initializer::kZero))};
    return Make({.op = kNorm, .input = x, .weight = norm.weight, .bias = norm.bias}, Of(x));
  }

  // One gain for all heads, or of each element of all heads.
  int HeadNorm(int x, bool together, std::int64_t queries, std::int64_t keys) {
    const auto gain = [&](std::string_view name, std::int64_t width) {
      const Split split = together ? Split{.dim = 0, .segments = {width}} : Split{};
      return Add({name, ParameterRole::kNormGain, {width}, split, GainStart(), 0});
    };
    const int query_gain = gain("attention.query_norm.gain", together ? queries : model_.head_size());
    const int key_gain = gain("attention.key_norm.gain", together ? keys : model_.head_size());
    return Make({.op = kHeadNorm, .input = x, .weight = query_gain, .key_gain = key_gain, .together = together}, Of(x));
  }

  int Enter(int x) { return Make({.op = kEnter, .input = x}, {Of(x).width, kTensor}); }
  int Leave(int x) { return Make({.op = kLeave, .input = x}, {Of(x).width, kOutside}); }
  int Rotary(int x) { return Make({.op = kRotary, .input = x}, Of(x)); }
  int Attention(int qkv) { return Make({.op = kAttention, .input = qkv}, {kHeads, kTensor}); }
  int Activation(int x) { return Make({.op = kActivation, .input = x}, {kFeedForward, kTensor}); }

  // A linear layer whose outputs the tensor axis cuts, segment by segment.
  int ColumnLinear(int x, const ProductNames& names, BlockWidth width, const std::vector<std::int64_t>& segments) {
    std::int64_t outputs = 0;
    for (const std::int64_t segment : segments) {
      outputs += segment;
    }
    const Split split{.dim = 0, .segments = segments};
    const Layer layer = {Add({names.weight,
                              ParameterRole::kWeight,
                              {outputs, model_.hidden},
                              split,
                              Initializer::kNormal,
                              model_.initial_deviation}),
                         AddBias(width == kQkv ? model_.qkv_bias : model_.linear_bias,
                                 {names.bias, ParameterRole::kBias, {outputs}, split, Initializer::kZero, 0})};
    // Every rank has all of A, and the rows of B that its outputs are made of.
    const AdapterPair adapter = Adapter(names, model_.hidden, {}, outputs, split);
    return Make({.op = kLinear,
                 .input = x,
                 .weight = layer.weight,
                 .bias = layer.bias,
                 .adapter_a = adapter.a,
                 .adapter_b = adapter.b},
                {width, kTensor});
  }

  // What the ranks of the tensor group have parts of: their sum (+ bias) is a branch's output.
  struct Partial {
    int value = -1;
    int bias = -1;
  };

  // A linear layer whose inputs the tensor axis cuts.
  Partial RowLinear(int x, const ProductNames& names, std::int64_t inputs, bool bias) {
    const Split split{.dim = 1, .segments = {inputs}};
    const Layer layer = {Add({names.weight,
                              ParameterRole::kWeight,
                              {model_.hidden, inputs},
                              split,
                              Initializer::kNormal,
                              BranchDeviation()}),
                         AddBias(bias, Vector(names.bias, ParameterRole::kBias, Initializer::kZero))};
    // The columns of A that a rank's inputs meet, and all of B: sums of the group complete what A makes, too.
    const AdapterPair adapter = Adapter(names, inputs, split, model_.hidden, {});
    return {Make({.op = kLinear, .input = x, .weight = layer.weight, .adapter_a = adapter.a, .adapter_b = adapter.b},
                 {kHidden, kTensor}),
            layer.bias};
  }

  // The end of a branch: the sum over the tensor group, a norm where the family has one, and the sum with the residual
  // stream. Every rank holds the bias, which is added after the sum of the group.
  int JoinBranch(const Partial& partial, const BranchNorm& norm, int residual) {
    int branch = Leave(partial.value);
    if (model_.post_norm) {
      branch = Norm(branch, norm.gain, norm.bias);
    }
    if (model_.residual_multiplier != 1) {
      branch = Make({.op = kScale, .input = branch, .factor = model_.residual_multiplier}, Of(branch));
    }
    return Make({.op = kAdd, .input = branch, .residual = residual, .bias = partial.bias, .site = sites_++}, {});
  }

  // A linear layer that every tensor rank has whole, for numbers that decide: its output is fp32.
  int WholeLinear(int x, std::string_view name, BlockWidth width, std::int64_t outputs) {
    const int weight = Add(
        {name, ParameterRole::kWeight, {outputs, model_.hidden}, {}, Initializer::kNormal, model_.initial_deviation});
    return Make({.op = kLinear, .input = x, .weight = weight}, {width, kTensor});
  }

  // The feed-forward part between kEnter and kLeave. A dense one:
  Partial Dense(int x, const ProductNames& in, const ProductNames& out, std::int64_t ffn) {
    const int wide =
        ColumnLinear(x, in, kFeedForwardIn, IsGated(model_.feed_forward) ? std::vector{ffn, ffn} : std::vector{ffn});
    return RowLinear(Activation(wide), out, ffn, model_.linear_bias);
  }

  // Experts, each cut by its width: every tensor rank makes the same choice and a part of every row. Backward comes to
  // the rows first, which make the gradient of x that the other readers add to.
  Partial Sparse(int x) {
    const ExpertsConfig& experts = model_.experts;
    const int scores = WholeLinear(x, "router.weight", kScores, experts.count);
    const int choice = Make({.op = kRoute,
                             .input = scores,
                             .router = {.score = experts.score,
                                        .renormalize = experts.renormalize,
                                        .scale = static_cast<float>(experts.scale)},
                             .balance = experts.balance_loss > 0},
                            {kChoice, kTensor});
    const int gate = experts.shared_gate ? WholeLinear(x, "shared.gate", kGate, 1) : -1;
    const int shared = experts.shared_ffn > 0 ? Dense(x, kSharedIn, kSharedOut, experts.shared_ffn).value : -1;
    const std::int64_t wide = 2 * experts.ffn;
    const int rows = Make({.op = kDispatch, .input = x, .choice = choice}, {kHidden, kExperts});
    const int in = Add({"experts.in.weight",
                        ParameterRole::kWeight,
                        {experts.count, wide, model_.hidden},
                        {.dim = 1, .segments = {experts.ffn, experts.ffn}},
                        Initializer::kNormal,
                        model_.initial_deviation});
    const int active =
        Make({.op = kActivation,
              .input = Make({.op = kLinear, .input = rows, .weight = in, .choice = choice}, {kExpertIn, kExperts}),
              .choice = choice},
             {kExpert, kExperts});
    const int out = Add({"experts.out.weight",
                         ParameterRole::kWeight,
                         {experts.count, model_.hidden, experts.ffn},
                         {.dim = 2, .segments = {experts.ffn}},
                         Initializer::kNormal,
                         BranchDeviation()});
    const int made = Make({.op = kLinear, .input = active, .weight = out, .choice = choice}, {kHidden, kExperts});
    return {.value = Make({.op = kCombine, .input = made, .choice = choice, .added = shared, .gate = gate},
                          {kHidden, kTensor})};
  }

  // A starts with the deviation that PEFT's uniform numbers have, B at zero.
  AdapterPair Adapter(const ProductNames& names, std::int64_t inputs, const Split& split_a, std::int64_t outputs,
                      const Split& split_b) {
    if (!model_.adapter.On(names.name)) {
      return {};
    }
    const std::int64_t rank = model_.adapter.rank;
    const double deviation = 1 / std::sqrt(3.0 * static_cast<double>(inputs));
    return {
        Add({names.adapter_a, ParameterRole::kWeight, {rank, inputs}, split_a, Initializer::kNormal, deviation, true}),
        Add({names.adapter_b, ParameterRole::kWeight, {outputs, rank}, split_b, Initializer::kZero, 0, true})};
  }

  BlockDescription Take() { return std::move(block_); }

 private:
  BlockValue Of(int value) const { return block_.values[static_cast<std::size_t>(value)]; }

  int Make(BlockOperation operation, BlockValue value) {
    operation.output = static_cast<int>(block_.values.size());
    block_.operations.push_back(operation);
    block_.values.push_back(value);
    return operation.output;
  }

  BlockParameter Vector(std::string_view name, ParameterRole role, Initializer initializer) const {
    return {name, role, {model_.hidden}, {}, initializer, 0};
  }
  int Add(BlockParameter parameter) {
    if (with_parameters_) {
      block_.parameters.push_back(std::move(parameter));
    }
    return parameters_++;
  }
  int AddBias(bool present, BlockParameter parameter) { return present ? Add(std::move(parameter)) : -1; }
  // Two branches per layer add to the residual stream: their last matrices start smaller to keep its variance at one.
  double BranchDeviation() const {
    return model_.initial_deviation / std::sqrt(2.0 * static_cast<double>(model_.layers));
  }
  Initializer GainStart() const { return model_.gain_offset == 0 ? Initializer::kOne : Initializer::kZero; }

  const ModelConfig& model_;
  bool with_parameters_;
  BlockDescription block_;
  int parameters_ = 0;
  int sites_ = 0;
};

BlockDescription Describe(const ModelConfig& model, bool sparse, bool positions, bool with_parameters) {
  Require(
      !model.post_norm || !(model.linear_bias || model.out_bias),
      "family '{}' sets post_norm and linear_bias: a branch adds its bias after the sum of the tensor group, which a "
      "norm after the branch would have to read; set linear_bias = false in the family's file",
      model.family);
  Writer block(model, with_parameters);
  const int input = 0;
  const std::int64_t queries = model.heads * model.head_size();
  const std::int64_t keys = (model.kv_heads == 0 ? model.heads : model.kv_heads) * model.head_size();

  int x = input;
  if (model.pre_norm) {
    x = block.Norm(x, "attention.norm.gain", "attention.norm.bias");
  }
  x = block.Enter(x);
  x = block.ColumnLinear(x, kQkvProduct, kQkv, {queries, keys, keys});
  if (model.qk_norm != QkNormChoice::kNone) {
    x = block.HeadNorm(x, model.qk_norm == QkNormChoice::kAllHeads, queries, keys);
  }
  if (model.position == PositionChoice::kRotary && positions) {
    x = block.Rotary(x);
  }
  x = block.Attention(x);
  const int middle = block.JoinBranch(block.RowLinear(x, kAttentionOut, queries, model.out_bias),
                                      {"attention.post_norm.gain", "attention.post_norm.bias"}, input);

  x = model.parallel_branches ? input : middle;
  if (model.pre_norm) {
    x = block.Norm(x, "mlp.norm.gain", "mlp.norm.bias");
  }
  x = block.Enter(x);
  const Writer::Partial made = sparse ? block.Sparse(x) : block.Dense(x, kMlpIn, kMlpOut, model.ffn);
  block.JoinBranch(made, {"mlp.post_norm.gain", "mlp.post_norm.bias"}, middle);
  return block.Take();
}

}  // namespace

int BlockDescription::MakerOf(int value) const {
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (operations[i].output == value) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

BlockDescription DescribeBlock(const ModelConfig& model, bool sparse, bool positions) {
  return Describe(model, sparse, positions, true);
}

BlockDescription DescribeOperations(const ModelConfig& model, bool sparse, bool positions) {
  return Describe(model, sparse, positions, false);
}

}  // namespace trireme
