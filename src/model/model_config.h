// The shape of a model and the choices of its family, as data. One transformer block reads its choices from here;
// a family is a file that fills them in.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/words.h"
#include "model/adapter.h"
#include "model/experts.h"
#include "model/layer_types.h"
#include "ops/activation.h"
#include "ops/norm.h"
#include "topology/layout.h"

namespace trireme {

enum class PositionChoice : std::uint8_t { kLearned, kAlibi, kRotary };
// An RMS norm of queries and keys before their positions: of each head by itself, or of all heads together.
enum class QkNormChoice : std::uint8_t { kNone, kEachHead, kAllHeads };

// Scaling of rotary positions: see model/rotary.h.
enum class RopeScaling : std::uint8_t { kNone, kLinear, kLlama3, kYarn, kLongRope };
template <>
inline constexpr std::array<std::string_view, 5> kWords<RopeScaling> = {"none", "linear", "llama3", "yarn", "longrope"};

// Latent attention (DeepSeek-V2): queries, and keys with values, pass through narrow products, and positions turn
// `rope` further elements of queries and keys. Priced by the planner; the trainer does not compute it.
struct LatentAttention {
  std::int64_t query_rank = 0;  // width that queries pass through; 0: one product makes them
  std::int64_t kv_rank = 0;     // width that keys and values pass through; 0: attention is not latent
  std::int64_t rope = 64;

  bool any() const { return kv_rank > 0; }
  bool operator==(const LatentAttention&) const = default;
};

// Whether a norm follows the embedding. kAutomatic: the family's choice.
enum class EmbeddingNormChoice : std::uint8_t { kAutomatic, kYes, kNo };
template <>
inline constexpr std::array<std::string_view, 3> kWords<EmbeddingNormChoice> = {"auto", "yes", "no"};

// The activation function of the feed-forward part, of gates where it has some. kAutomatic: the family's.
enum class ActivationChoice : std::uint8_t { kAutomatic, kGeluTanh, kGelu, kRelu, kSquaredRelu, kSilu };
template <>
inline constexpr std::array<std::string_view, 6> kWords<ActivationChoice> = {"auto", "gelu_tanh", "gelu",
                                                                             "relu", "relu2",     "silu"};

// Whether linear layers have biases. kAutomatic: the family's choice.
enum class BiasChoice : std::uint8_t { kAutomatic, kYes, kNo };
template <>
inline constexpr std::array<std::string_view, 3> kWords<BiasChoice> = {"auto", "yes", "no"};

struct ModelConfig {
  std::string family = "gpt2";
  std::int64_t layers = 2;
  std::int64_t hidden = 64;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 0;  // 0: as many as heads
  std::int64_t head_dim = 0;  // 0: hidden / heads
  std::int64_t ffn = 0;       // 0: the family's rule
  std::int64_t vocabulary = 256;
  std::int64_t sequence = 64;
  bool tie_embeddings = true;
  double dropout = 0;  // after the embedding and after each of a block's two branches
  double norm_epsilon = 1e-5;
  double rope_theta = 10000;
  double local_rope_theta = 0;  // of windowed layers, whose positions are not scaled; 0: as in the others
  double rotary_fraction = 0;   // of a head's elements that are turned; 0: the family's
  RopeScaling rope_scaling = RopeScaling::kNone;
  double rope_factor = 1;
  double rope_low = 0;              // 0: the kind's
  double rope_high = 0;             // likewise
  std::int64_t rope_original = 0;   // positions that the model was trained on before; 0: sequence
  double rope_magnitude = 0;        // of elements that yarn and longrope turn; 0: what follows from rope_factor
  std::string rope_short_factors;   // of longrope: "1, 1.25, …", one for each pair of elements that is turned
  std::string rope_long_factors;    // likewise, of sequences longer than rope_original
  std::int64_t window = 0;          // keys that a query of a windowed layer sees, itself included; 0: all
  std::int64_t window_period = 0;   // every so many layers one sees all keys; 0: all layers are windowed
  std::string layer_types;          // the kind of each layer (model/layer_types.h); empty: by window_period
  double attention_cap = 0;         // scores are cap * tanh(score / cap); 0: not capped
  double logit_cap = 0;             // likewise, of the output
  double query_scalar = 0;          // scores are divided by its root; 0: the head size
  double attention_multiplier = 0;  // scores are multiplied by it; 0: by 1 / root of query_scalar
  bool scores_by_layer = false;     // scores of layer i, counted from 1, are divided by i as well
  double embedding_multiplier = 0;  // of token embeddings; 0: the family's
  double residual_multiplier = 1;   // of what a branch adds
  double logits_scaling = 1;        // the output is divided by it
  ActivationChoice activation = ActivationChoice::kAutomatic;
  BiasChoice attention_bias = BiasChoice::kAutomatic;  // of both linear layers of attention
  BiasChoice mlp_bias = BiasChoice::kAutomatic;
  bool serial_branches = false;  // where a family's branches are parallel: one after the other
  double initial_deviation = 0.02;
  double attention_dropout = 0;  // of the weights that scores become
  EmbeddingNormChoice embedding_norm_choice = EmbeddingNormChoice::kAutomatic;
  AdapterConfig adapter;  // LoRA: the keys of [lora]
  ExpertsConfig experts;
  LatentAttention latent;
  bool attention_sinks = false;  // a learned logit of each head to attend to nothing; priced, not computed

  // Set by the family:
  NormKind norm = NormKind::kLayer;
  PositionChoice position = PositionChoice::kLearned;
  ActivationKind feed_forward = ActivationKind::kGelu;
  QkNormChoice qk_norm = QkNormChoice::kNone;
  bool norm_bias = true;
  bool qkv_bias = true;
  bool out_bias = true;                  // of attention's last linear layer
  bool linear_bias = true;               // of the feed-forward part
  bool pre_norm = true;                  // a norm before each branch
  bool post_norm = false;                // a norm after each branch, before the sum; takes no biases there
  bool parallel_branches = false;        // both branches read the block's input
  double gain_offset = 0;                // norms multiply by gain + gain_offset
  bool scale_embedding = false;          // token embeddings are multiplied by sqrt(hidden)
  std::int64_t position_offset = 0;      // the first row of the position table that is used
  bool finer_alibi = false;              // heads that are no power of two take slopes of the next one, odd places first
  bool embedding_norm = false;           // a norm right after the embedding
  std::vector<LayerKind> layer_pattern;  // layer_types as Completed read it; empty where that is

  std::int64_t head_size() const { return head_dim > 0 ? head_dim : hidden / heads; }
  // Elements of a head that rotary positions turn, the first ones.
  std::int64_t rotary_size() const {
    return rotary_fraction > 0 ? static_cast<std::int64_t>(rotary_fraction * static_cast<double>(head_size()))
                               : head_size();
  }
  // Keys that a query of a block sees at most; 0: all.
  std::int64_t WindowOf(std::int64_t layer) const {
    if (!layer_pattern.empty()) {
      return KindOf(layer).sliding ? window : 0;
    }
    return window_period > 0 && (layer + 1) % window_period == 0 ? 0 : window;
  }
  // The config must have a pattern.
  const LayerKind& KindOf(std::int64_t layer) const {
    return layer_pattern[static_cast<std::size_t>(layer) % layer_pattern.size()];
  }
  AttentionKind AttentionOf(std::int64_t layer) const {
    return {.window = WindowOf(layer),
            .rotary = position == PositionChoice::kRotary && (layer_pattern.empty() || KindOf(layer).positions)};
  }
  bool ScalesEmbedding() const { return scale_embedding || (embedding_multiplier != 0 && embedding_multiplier != 1); }
  // Parameters of latent attention's products up to queries, keys and values.
  std::int64_t LatentParameters() const {
    const std::int64_t wide = heads * (head_size() + latent.rope);
    const std::int64_t queries =
        latent.query_rank > 0 ? latent.query_rank * (hidden + wide) + latent.query_rank : hidden * wide;
    return queries + hidden * (latent.kv_rank + latent.rope) + latent.kv_rank +
           latent.kv_rank * 2 * heads * head_size();
  }
  // Parameters of a block beyond those of plain attention.
  std::int64_t AddedByLatent() const {
    const std::int64_t keys = kv_heads == 0 ? heads : kv_heads;
    return latent.any() ? LatentParameters() - hidden * (heads + 2 * keys) * head_size() : 0;
  }
  // Whether the feed-forward part of a block has experts.
  bool IsSparse(std::int64_t layer) const {
    return experts.any() && layer >= experts.dense_layers && (layer + 1) % experts.period == 0;
  }
  std::int64_t SparseLayers() const {
    std::int64_t sparse = 0;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      sparse += IsSparse(layer) ? 1 : 0;
    }
    return sparse;
  }
  // Modules in order: 0 the embedding, 1 … layers the blocks, layers + 1 the head (final norm and output projection).
  std::int64_t modules() const { return layers + 2; }
  bool operator==(const ModelConfig&) const = default;
};

// A family completes a config whose user-given fields are set: choices, and defaults of fields left 0.
struct ModelFamily {
  std::string name;
  std::string description;
  // tie_embeddings given by the user stays; `tie_given` says whether it was.
  void (*complete)(ModelConfig& config, bool tie_given);
};
// The register: model/families.cc has one line each.
const std::vector<ModelFamily>& ModelFamilies();
// The family whose blocks a name stands for that is only used with experts ("mistral" for "mixtral"); "" for others.
std::string FamilyWithExperts(const std::string& name);
// An Error names the nearest known family.
const ModelFamily& FindModelFamily(const std::string& name);
// Family defaults applied and the shape checked by itself (positive, heads divide hidden unless head_dim is given,
// kv_heads divide heads, rotary positions turn an even part of a head, numbers below 2^31 where they index).
ModelConfig Completed(ModelConfig config, bool tie_given = false);
// How many layers of each kind of attention the model has.
std::map<AttentionKind, std::int64_t> AttentionKinds(const ModelConfig& config);
// Ranks of a group of the context axis among which Ulysses divides heads: all under 'ulysses', 1 without it; under
// 'ulysses+ring' layout.ulysses or, where that is 0, the largest part of the axis that divides a tensor rank's heads.
int HeadRanks(const ModelConfig& config, const ParallelLayout& layout);
// Checks that `layout` can cut `config`: heads, kv_heads and widths of feed-forward parts by tensor, tokens by tensor
// under sequence parallelism. The Error names the factor and the nearest values that would do.
void RequireDivisible(const ModelConfig& config, const ParallelLayout& layout);

// All parameters, unpadded; a tied table counts once.
std::int64_t ParameterCount(const ModelConfig& config);
// Those that a token passes through: of the experts, the chosen ones.
std::int64_t ActiveParameterCount(const ModelConfig& config);
// Those that training changes: all, or those of the adapters.
std::int64_t TrainedCount(const ModelConfig& config);
// ALiBi slope of each head, as BLOOM defines it.
std::vector<float> AlibiSlopes(std::int64_t heads);
// As the model's family defines it.
std::vector<float> AlibiSlopesOf(const ModelConfig& config);

}  // namespace trireme
