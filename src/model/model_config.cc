#include "model/model_config.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "model/block_description.h"
#include "model/rotary.h"

namespace trireme {
namespace {

// Bounds far above any published model; within them no count or byte total overflows 63 bits.
constexpr std::int64_t kMaxLayers = 10'000;
constexpr std::int64_t kMaxHidden = 1 << 20;
constexpr std::int64_t kMaxHeadSize = 1 << 16;
constexpr std::int64_t kMaxFeedForward = 1 << 22;
constexpr std::int64_t kMaxVocabulary = 1 << 24;
constexpr std::int64_t kMaxSequence = 1 << 24;

void RequireBetween(const char* key, std::int64_t value, std::int64_t low, std::int64_t high) {
  Require(value >= low && value <= high, "model.{} = {} must be between {} and {}; the nearest that works is {}", key,
          value, low, high, std::clamp(value, low, high));
}

void RequirePositive(const char* key, double value) {
  Require(std::isfinite(value) && value > 0, "model.{} = {} must be a finite number above 0", key, value);
}

void RequireShape(const ModelConfig& config) {
  RequireBetween("layers", config.layers, 1, kMaxLayers);
  RequireBetween("hidden", config.hidden, 1, kMaxHidden);
  RequireBetween("heads", config.heads, 1, config.hidden);
  RequireBetween("kv_heads", config.kv_heads, 0, config.heads);
  RequireBetween("head_dim", config.head_dim, 0, kMaxHeadSize);
  RequireBetween("ffn", config.ffn, 0, kMaxFeedForward);
  RequireBetween("vocabulary", config.vocabulary, 2, kMaxVocabulary);
  RequireBetween("sequence", config.sequence, 1, kMaxSequence);
  Require(std::isfinite(config.dropout) && config.dropout >= 0 && config.dropout < 1,
          "model.dropout = {} must be at least 0 and below 1", config.dropout);
  Require(std::isfinite(config.attention_dropout) && config.attention_dropout >= 0 && config.attention_dropout < 1,
          "model.attention_dropout = {} must be at least 0 and below 1", config.attention_dropout);
  RequirePositive("norm_epsilon", config.norm_epsilon);
  RequirePositive("rope_theta", config.rope_theta);
  RequirePositive("initial_deviation", config.initial_deviation);
  RequirePositive("residual_multiplier", config.residual_multiplier);
  RequirePositive("logits_scaling", config.logits_scaling);
  RequireBetween("window", config.window, 0, kMaxSequence);
  RequireBetween("window_period", config.window_period, 0, kMaxLayers);
  RequireBetween("rope_original", config.rope_original, 0, kMaxSequence);
  for (const auto& [key, value] :
       {std::pair{"local_rope_theta", config.local_rope_theta}, std::pair{"rope_low", config.rope_low},
        std::pair{"rope_high", config.rope_high}, std::pair{"attention_cap", config.attention_cap},
        std::pair{"logit_cap", config.logit_cap}, std::pair{"query_scalar", config.query_scalar},
        std::pair{"attention_multiplier", config.attention_multiplier},
        std::pair{"rope_magnitude", config.rope_magnitude},
        std::pair{"embedding_multiplier", config.embedding_multiplier}}) {
    Require(std::isfinite(value) && value >= 0, "model.{} = {} must be a finite number, at least 0", key, value);
  }
  Require(config.rotary_fraction >= 0 && config.rotary_fraction <= 1,
          "model.rotary_fraction = {} must be between 0 and 1", config.rotary_fraction);
  Require(std::isfinite(config.rope_factor) && config.rope_factor >= 1,
          "model.rope_factor = {} must be a finite number, at least 1", config.rope_factor);
  RequireAdapter(config.adapter, config.hidden);
}

// What families set, as if none had been asked.
void ResetChoices(ModelConfig& config) {
  const ModelConfig plain;
  config.norm = plain.norm;
  config.position = plain.position;
  config.feed_forward = plain.feed_forward;
  config.qk_norm = plain.qk_norm;
  config.norm_bias = plain.norm_bias;
  config.qkv_bias = plain.qkv_bias;
  config.out_bias = plain.out_bias;
  config.linear_bias = plain.linear_bias;
  config.pre_norm = plain.pre_norm;
  config.post_norm = plain.post_norm;
  config.parallel_branches = plain.parallel_branches;
  config.gain_offset = plain.gain_offset;
  config.scale_embedding = plain.scale_embedding;
  config.position_offset = plain.position_offset;
  config.embedding_norm = plain.embedding_norm;
  config.finer_alibi = plain.finer_alibi;
  config.layer_pattern.clear();
}

// A gate's function in place of `usual`'s, or that of a feed-forward part without gates.
ActivationKind ChosenActivation(ActivationChoice choice, ActivationKind usual) {
  const bool gated = IsGated(usual);
  switch (choice) {
    case ActivationChoice::kAutomatic:
      return usual;
    case ActivationChoice::kGeluTanh:
      return gated ? ActivationKind::kGeGlu : ActivationKind::kGelu;
    case ActivationChoice::kGelu:
      return gated ? ActivationKind::kExactGeGlu : ActivationKind::kExactGelu;
    case ActivationChoice::kRelu:
      return gated ? ActivationKind::kReGlu : ActivationKind::kRelu;
    case ActivationChoice::kSquaredRelu:
      Require(!gated,
              "model.activation = 'relu2': the family's feed-forward part has gates, whose function is silu, "
              "gelu, gelu_tanh or relu");
      return ActivationKind::kSquaredRelu;
    case ActivationChoice::kSilu:
      return gated ? ActivationKind::kSwiGlu : ActivationKind::kSilu;
  }
  return usual;
}

// What the user chose of a block instead of the family.
void TakeChoices(ModelConfig& config) {
  if (config.embedding_norm_choice != EmbeddingNormChoice::kAutomatic) {
    config.embedding_norm = config.embedding_norm_choice == EmbeddingNormChoice::kYes;
  }
  if (config.attention_bias != BiasChoice::kAutomatic) {
    config.qkv_bias = config.out_bias = config.attention_bias == BiasChoice::kYes;
  }
  if (config.mlp_bias != BiasChoice::kAutomatic) {
    config.linear_bias = config.mlp_bias == BiasChoice::kYes;
  }
  config.feed_forward = ChosenActivation(config.activation, config.feed_forward);
  const bool biases = config.out_bias || config.linear_bias;
  for (const auto& [key, choice] :
       {std::pair{"attention_bias", config.attention_bias}, std::pair{"mlp_bias", config.mlp_bias}}) {
    Require(choice != BiasChoice::kYes || !config.post_norm,
            "model.{} = 'yes' in family '{}': its branches end in a norm, behind which no bias is added", key,
            config.family);
  }
  Require(config.residual_multiplier == 1 || !biases,
          "model.residual_multiplier = {} with biases at the end of branches, which it does not multiply: set "
          "model.attention_bias and model.mlp_bias to \"no\", or take a family without biases",
          config.residual_multiplier);
}

void RequireHeads(const ModelConfig& config) {
  Require(config.head_dim > 0 || config.hidden % config.heads == 0,
          "model.heads = {} does not divide model.hidden = {}; the nearest that does is {}", config.heads,
          config.hidden, NearestDivisors(config.hidden, config.heads));
  Require(config.heads % config.kv_heads == 0,
          "model.kv_heads = {} does not divide model.heads = {}; the nearest that does is {}", config.kv_heads,
          config.heads, NearestDivisors(config.heads, config.kv_heads));
  Require(config.position != PositionChoice::kRotary || config.head_size() % 2 == 0,
          "model.hidden = {} over model.heads = {} makes heads of {}, but rotary positions turn pairs: the head size "
          "must be even, such as hidden = {}",
          config.hidden, config.heads, config.head_size(), config.heads * (config.head_size() + 1));
  Require(
      config.position != PositionChoice::kRotary || (config.rotary_size() % 2 == 0 && config.rotary_size() > 0),
      "model.rotary_fraction = {} of a head of {} is {}, but rotary positions turn pairs: it must be even and above "
      "0",
      config.rotary_fraction, config.head_size(), config.rotary_size());
}

void RequireRopeFactors(const ModelConfig& config) {
  const auto pairs = static_cast<std::size_t>(config.rotary_size() / 2);
  for (const auto& [key, text] : {std::pair{"rope_short_factors", &config.rope_short_factors},
                                  std::pair{"rope_long_factors", &config.rope_long_factors}}) {
    const std::size_t factors = ParseRopeFactors(key, *text).size();
    if (config.rope_scaling != RopeScaling::kLongRope || config.position != PositionChoice::kRotary) {
      Require(factors == 0, "model.{} is of model.rope_scaling = 'longrope' alone, which is '{}'", key,
              Name(config.rope_scaling));
      continue;
    }
    Require(factors == pairs, "model.{} has {} factors, but rotary positions turn {} pairs of a head's elements", key,
            factors, pairs);
  }
  Require(
      config.rope_scaling != RopeScaling::kLongRope || config.rope_original > 1,
      "model.rope_scaling = 'longrope' needs model.rope_original: the positions up to which model.rope_short_factors "
      "hold");
}

void RequireCut(const char* key, std::int64_t value, int tensor) {
  Require(value % tensor == 0,
          "layout.tensor = {} does not divide model.{} = {}; the nearest tensor degree that does is {}", tensor, key,
          value, NearestDivisors(value, tensor));
}

// Each rank of the context axis has two chunks of every sequence, and under Ulysses whole heads.
void RequireContext(const ModelConfig& config, const ParallelLayout& layout) {
  if (layout.context == 1) {
    return;
  }
  const std::int64_t pairs = 2 * std::int64_t{layout.context_stripes};
  const std::int64_t chunks = pairs * layout.context;
  Require(config.sequence % chunks == 0,
          "layout.context = {}{} cuts model.sequence = {} into {} chunks, which do not divide it; the nearest context "
          "degree that works is {}",
          layout.context,
          layout.context_stripes > 1 ? fmt::format(" x layout.context_stripes = {}", layout.context_stripes) : "",
          config.sequence, chunks,
          config.sequence % pairs == 0 ? NearestDivisors(config.sequence / pairs, layout.context) : "1");
  if (layout.context_kind == ContextKind::kUlyssesRing) {
    const int groups = HeadRanks(config, layout);
    bool divides = false;
    for (int ranks = 2; ranks < layout.context; ++ranks) {
      divides = divides || layout.context % ranks == 0;
    }
    Require(
        divides,
        "layout.context_kind = 'ulysses+ring' takes several groups of several ranks, which layout.context = {} cannot "
        "be; set layout.context = 4, or choose 'ring' or 'ulysses'",
        layout.context);
    Require(
        groups > 1 || layout.ulysses > 0,
        "layout.context_kind = 'ulysses+ring': no divisor of layout.context = {} divides the heads of a tensor rank "
        "(model.heads = {}, model.kv_heads = {}, layout.tensor = {}); choose 'ring'",
        layout.context, config.heads, config.kv_heads, layout.tensor);
    Require(
        groups > 1 && groups < layout.context && layout.context % groups == 0,
        "layout.context_kind = 'ulysses+ring': layout.context = {} ranks must be several groups of layout.ulysses = {} "
        "each, at least 2; set layout.ulysses to a divisor of the context degree that divides the heads of a tensor "
        "rank, or choose 'ring' or 'ulysses'",
        layout.context, layout.ulysses);
  }
  const int within = HeadRanks(config, layout);
  for (const auto& [key, heads] : {std::pair{"heads", config.heads}, std::pair{"kv_heads", config.kv_heads}}) {
    Require(
        heads % (std::int64_t{layout.tensor} * within) == 0,
        "layout.context_kind = '{}': layout.tensor = {} x {} = {} does not divide model.{} = {}; the nearest degree "
        "that does is {}, and layout.context_kind = 'allgather' takes any",
        Name(layout.context_kind), layout.tensor, within == layout.context ? "layout.context" : "layout.ulysses",
        within, key, heads, NearestDivisors(heads / layout.tensor, within));
  }
}

}  // namespace

ModelConfig Completed(ModelConfig config, bool tie_given) {
  if (const std::string blocks = FamilyWithExperts(config.family); !blocks.empty()) {
    Require(config.experts.any(),
            "model.family = '{}' needs model.experts and model.experts_per_token; without experts it is '{}'",
            config.family, blocks);
    config.family = blocks;
  }
  const ModelFamily& family = FindModelFamily(config.family);
  RequireShape(config);
  ResetChoices(config);
  family.complete(config, tie_given);
  TakeChoices(config);
  CompleteLayers(config);
  if (config.kv_heads == 0) {
    config.kv_heads = config.heads;
  }
  RequireBetween("ffn", config.ffn, 1, kMaxFeedForward);
  config.experts = CompletedExperts(config);
  RequireExperts(config);
  RequireHeads(config);
  RequireRopeFactors(config);
  return config;
}

int HeadRanks(const ModelConfig& config, const ParallelLayout& layout) {
  if (layout.context == 1) {
    return 1;
  }
  if (layout.context_kind == ContextKind::kUlysses) {
    return layout.context;
  }
  if (layout.context_kind != ContextKind::kUlyssesRing) {
    return 1;
  }
  if (layout.ulysses > 0) {
    return layout.ulysses;
  }
  const std::int64_t kv_heads = config.kv_heads == 0 ? config.heads : config.kv_heads;
  for (int ranks = layout.context / 2; ranks > 1; --ranks) {
    const std::int64_t parts = std::int64_t{layout.tensor} * ranks;
    if (layout.context % ranks == 0 && config.heads % parts == 0 && kv_heads % parts == 0) {
      return ranks;
    }
  }
  return 1;
}

void RequireDivisible(const ModelConfig& config, const ParallelLayout& layout) {
  RequireCut("heads", config.heads, layout.tensor);
  RequireCut("kv_heads", config.kv_heads, layout.tensor);
  if (!config.experts.any() || config.SparseLayers() < config.layers) {
    RequireCut("ffn", config.ffn, layout.tensor);
  }
  if (config.experts.any()) {
    RequireCut("expert_ffn", config.experts.ffn, layout.expert_width_ranks());
    RequireCut("shared_ffn", config.experts.shared_ffn, layout.tensor);
  }
  Require(config.experts.any() || layout.expert == 1,
          "layout.expert = {} divides experts, but model.experts is 0; set layout.expert = 1", layout.expert);
  Require(!config.experts.any() || config.experts.count % layout.expert == 0,
          "layout.expert = {} does not divide model.experts = {}; the nearest that works is {}", layout.expert,
          config.experts.count, NearestDivisors(config.experts.count, layout.expert));
  Require(layout.expert == 1 || layout.expert_replicas() > 0,
          "layout.expert = {} does not divide the {} ranks of a stage (layout.tensor x layout.context x layout.data); "
          "the nearest that works is {}",
          layout.expert, layout.tensor * layout.replicas(),
          NearestDivisors(layout.tensor * layout.replicas(), layout.expert));
  RequireContext(config, layout);
  const std::int64_t tokens = layout.micro_batch * config.sequence / layout.context;
  Require(
      !layout.sequence_parallel || tokens % layout.tensor == 0,
      "layout.sequence_parallel cuts the {} tokens of a micro batch (layout.micro_batch = {} x model.sequence = {}{}) "
      "over layout.tensor = {}, which does not divide them; the nearest tensor degree that does is {}",
      tokens, layout.micro_batch, config.sequence,
      layout.context > 1 ? fmt::format(" / layout.context = {}", layout.context) : "", layout.tensor,
      NearestDivisors(tokens, layout.tensor));
}

namespace {

// Sum over the blocks of `count` of each parameter.
template <typename Count>
std::int64_t SumOverBlocks(const ModelConfig& config, const Count& count) {
  const std::int64_t sparse = config.SparseLayers();
  std::int64_t sum = 0;
  for (const auto& [layers, has_experts] : {std::pair{config.layers - sparse, false}, std::pair{sparse, true}}) {
    if (layers == 0) {
      continue;
    }
    for (const BlockParameter& parameter : DescribeBlock(config, has_experts).parameters) {
      sum += layers * count(parameter);
    }
  }
  return sum;
}

std::int64_t OutsideBlocks(const ModelConfig& config) {
  const std::int64_t hidden = config.hidden;
  const std::int64_t norm = config.norm_bias ? 2 * hidden : hidden;
  std::int64_t count = config.vocabulary * hidden + norm;
  if (config.position == PositionChoice::kLearned) {
    count += (config.sequence + config.position_offset) * hidden;
  }
  if (config.embedding_norm) {
    count += norm;
  }
  if (!config.tie_embeddings) {
    count += config.vocabulary * hidden;
  }
  return count;
}

}  // namespace

std::int64_t ParameterCount(const ModelConfig& config) {
  return OutsideBlocks(config) + config.layers * config.AddedByLatent() +
         SumOverBlocks(config, [](const BlockParameter& parameter) { return parameter.shape.count(); });
}

std::int64_t ActiveParameterCount(const ModelConfig& config) {
  return OutsideBlocks(config) + config.layers * config.AddedByLatent() +
         SumOverBlocks(config, [&](const BlockParameter& parameter) {
           // The matrices of all experts are one parameter.
           const bool of_experts = parameter.shape.rank() == 3;
           return of_experts ? parameter.shape.count() / config.experts.count * config.experts.chosen
                             : parameter.shape.count();
         });
}

std::int64_t TrainedCount(const ModelConfig& config) {
  if (!config.adapter.any()) {
    return ParameterCount(config);
  }
  return SumOverBlocks(config, [](const BlockParameter& parameter) {
    return parameter.adapter ? parameter.shape.count() : std::int64_t{0};
  });
}

std::vector<float> AlibiSlopes(std::int64_t heads) {
  // Heads up to a power of two take a geometric series; further ones the odd places of the series twice as fine.
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  std::vector<float> slopes;
  for (std::int64_t head = 0; head < heads; ++head) {
    const double exponent = head < power ? static_cast<double>(head + 1) * 8 / static_cast<double>(power)
                                         : static_cast<double>(2 * (head - power) + 1) * 4 / static_cast<double>(power);
    slopes.push_back(static_cast<float>(std::exp2(-exponent)));
  }
  return slopes;
}

std::vector<float> AlibiSlopesOf(const ModelConfig& config) {
  const auto power = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(config.heads)));
  if (!config.finer_alibi || power == config.heads) {
    return AlibiSlopes(config.heads);
  }
  const std::vector<float> series = AlibiSlopes(power);
  std::vector<float> slopes;
  for (const std::size_t first : {std::size_t{1}, std::size_t{0}}) {
    for (std::size_t i = first; i < series.size() && static_cast<std::int64_t>(slopes.size()) < config.heads; i += 2) {
      slopes.push_back(series[i]);
    }
  }
  return slopes;
}

}  // namespace trireme
