#include "checkpoint/gguf/gguf_model.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "checkpoint/gguf/gguf_experts.h"
#include "model/rotary.h"

namespace trireme {
namespace {

void AddPhi3(const ModelConfig& /*model*/, const std::string& at, GgufHeader& header) {
  header.Count(at + "attention.sliding_window", 0);
}

void AddGptNeoX(const ModelConfig& model, const std::string& at, GgufHeader& header) {
  header.Flag(at + "use_parallel_residual", !model.serial_branches);
}

void AddMpt(const ModelConfig& /*model*/, const std::string& at, GgufHeader& header) {
  header.Number(at + "attention.max_alibi_bias", 8);
}

constexpr std::array kArchitectures = {
    GgufArchitecture{.family = "gpt2", .name = "gpt2", .fused_projections = true},
    GgufArchitecture{.family = "bloom", .name = "bloom", .fused_projections = true},
    GgufArchitecture{.family = "mpt", .name = "mpt", .fused_projections = true, .add = AddMpt},
    GgufArchitecture{.family = "gpt_neox",
                     .name = "gptneox",
                     .fused_projections = true,
                     .own_output = true,
                     .part_of_head = true,
                     .add = AddGptNeoX},
    GgufArchitecture{.family = "llama", .name = "llama", .paired_rotary = true, .free_heads = true},
    GgufArchitecture{.family = "mistral", .name = "llama", .paired_rotary = true, .free_heads = true},
    GgufArchitecture{.family = "qwen2", .name = "qwen2"},
    GgufArchitecture{.family = "qwen3", .name = "qwen3", .free_heads = true},
    GgufArchitecture{
        .family = "gemma2", .name = "gemma2", .free_heads = true, .windows = true, .capped = true, .largest = 46},
    GgufArchitecture{.family = "gemma3", .name = "gemma3", .free_heads = true, .windows = true, .largest = 62},
    GgufArchitecture{.family = "olmo2", .name = "olmo2", .own_output = true},
    GgufArchitecture{.family = "phi3",
                     .name = "phi3",
                     .fused_projections = true,
                     .fused_gate = true,
                     .part_of_head = true,
                     .longrope = true,
                     .named_phi = true,
                     .add = AddPhi3},
    GgufArchitecture{.family = "nemotron", .name = "nemotron", .own_output = true, .part_of_head = true},
};

void RequireGemma(const ModelConfig& model, const GgufArchitecture& architecture) {
  const bool second = architecture.capped;
  Require(!second || model.tie_embeddings, "llama.cpp's Gemma 2 has a tied output; this model's is its own");
  Require(second == (model.attention_cap > 0),
          "model.attention_cap = {}: llama.cpp caps scores in Gemma 2 always and in Gemma 3 never",
          model.attention_cap);
  Require(!second || model.logit_cap > 0, "model.logit_cap = 0: llama.cpp caps the logits of Gemma 2 always");
  const bool largest = model.layers == architecture.largest;
  const std::int64_t theirs = largest ? model.hidden / model.heads : model.head_size();
  const double ours = model.query_scalar > 0 ? model.query_scalar : static_cast<double>(model.head_size());
  Require(ours == static_cast<double>(theirs),
          "model.query_scalar = {}: llama.cpp divides the scores of this shape by the root of {}", ours, theirs);
}

void RequireRotary(const ModelConfig& model, const GgufArchitecture& architecture) {
  if (model.position != PositionChoice::kRotary) {
    return;
  }
  Require(architecture.part_of_head || model.rotary_size() == model.head_size(),
          "model.rotary_fraction = {}: llama.cpp turns whole heads in its architecture '{}'", model.rotary_fraction,
          architecture.name);
  Require(model.rope_scaling != RopeScaling::kLlama3 || architecture.paired_rotary,
          "model.rope_scaling = 'llama3': llama.cpp reads it for Llama alone, not for '{}'", architecture.name);
  Require(model.rope_scaling != RopeScaling::kLongRope || architecture.longrope,
          "model.rope_scaling = 'longrope': llama.cpp reads its factors for Phi-3, not for '{}'", architecture.name);
  Require(model.rope_scaling != RopeScaling::kYarn || !architecture.windows,
          "model.rope_scaling = 'yarn': llama.cpp does not scale '{}' so", architecture.name);
  Require(!architecture.capped || model.local_rope_theta == 0 || model.rope_scaling == RopeScaling::kNone,
          "model.rope_scaling = '{}' with local_rope_theta: llama.cpp scales every layer of Gemma 2",
          Name(model.rope_scaling));
}

// What no file of ours says, though some of llama.cpp's architectures may have a key for it.
void RequirePlain(const ModelConfig& model) {
  const auto require = [](bool plain, const char* key, const auto& value) {
    Require(plain,
            "model.{} = {}: no GGUF file is written for it; export to Hugging Face, from where llama.cpp's "
            "convert_hf_to_gguf.py goes on",
            key, value);
  };
  for (const LayerKind& kind : model.layer_pattern) {
    require(kind.positions, "layer_types", "'" + model.layer_types + "'");
  }
  require(model.activation == ActivationChoice::kAutomatic, "activation", Name(model.activation));
  require(model.attention_bias == BiasChoice::kAutomatic, "attention_bias", Name(model.attention_bias));
  require(model.mlp_bias == BiasChoice::kAutomatic, "mlp_bias", Name(model.mlp_bias));
  require(model.attention_multiplier == 0, "attention_multiplier", model.attention_multiplier);
  require(model.rope_magnitude == 0, "rope_magnitude", model.rope_magnitude);
  require(!model.finer_alibi || AlibiSlopesOf(model) == AlibiSlopes(model.heads), "heads", model.heads);
  require(!model.scores_by_layer, "scores_by_layer", model.scores_by_layer);
  require(model.embedding_multiplier == 0, "embedding_multiplier", model.embedding_multiplier);
  require(model.residual_multiplier == 1, "residual_multiplier", model.residual_multiplier);
  require(model.logits_scaling == 1, "logits_scaling", model.logits_scaling);
}

}  // namespace

std::span<const GgufArchitecture> GgufArchitectures() { return kArchitectures; }

namespace {

const GgufArchitecture& DenseArchitectureOf(const ModelConfig& model) {
  const auto* found = std::find_if(kArchitectures.begin(), kArchitectures.end(),
                                   [&](const auto& known) { return known.family == model.family; });
  if (found == kArchitectures.end()) {
    std::string names;
    for (const GgufArchitecture& known : kArchitectures) {
      names += std::string(names.empty() ? "" : ", ") + known.family;
    }
    Fail("no GGUF file is written for the family '{}'; there is one for {}", model.family, names);
  }
  return *found;
}

}  // namespace

const GgufArchitecture& GgufArchitectureOf(const ModelConfig& model) {
  const GgufArchitecture* found = model.experts.any() ? &GgufExpertArchitectureOf(model) : &DenseArchitectureOf(model);
  Require(found->free_heads || model.head_size() * model.heads == model.hidden,
          "model.head_dim = {}: llama.cpp's architecture '{}' has heads of hidden / heads = {}", model.head_size(),
          found->name, model.hidden / model.heads);
  RequirePlain(model);
  if (found->windows) {
    Require(model.layer_types.empty(),
            "model.layer_types = '{}': llama.cpp's '{}' has one layer that sees all keys after every so many, which is "
            "model.window_period",
            model.layer_types, found->name);
    RequireGemma(model, *found);
  } else {
    Require(model.attention_cap == 0 && model.logit_cap == 0 && model.query_scalar == 0,
            "llama.cpp's architecture '{}' has no caps and no query_scalar", found->name);
  }
  RequireRotary(model, *found);
  return *found;
}

namespace {

// The tensors of a model, as they are listed.
class Listing {
 public:
  Listing(const ParameterTable& table, const GgufArchitecture& architecture)
      : table_(table), architecture_(architecture) {}

  // A row of -1 is a parameter that the model does not have.
  void Whole(const std::string& name, int row) {
    if (row >= 0) {
      Part(name, row, 0, RowOf(row).shape[0], 0);
    }
  }
  void Norm(const std::string& name, std::int64_t layer, const std::string& ours) {
    Whole(name + ".weight", table_.InBlock(layer, ours + ".gain"));
    Whole(name + ".bias", table_.InBlock(layer, ours + ".bias"));
  }
  void Linear(const std::string& name, std::int64_t layer, const std::string& ours) {
    Whole(name + ".weight", table_.InBlock(layer, ours + ".weight"));
    Whole(name + ".bias", table_.InBlock(layer, ours + ".bias"));
  }
  // The segments of a cut linear layer, weights then biases; `heads` of each where its rows are reordered.
  void Segments(const std::vector<std::string>& names, std::int64_t layer, const std::string& ours,
                const std::vector<std::int64_t>& heads) {
    for (const char* kind : {".weight", ".bias"}) {
      const int row = table_.InBlock(layer, ours + kind);
      std::int64_t first = 0;
      for (std::size_t i = 0; row >= 0 && i < names.size(); ++i) {
        const std::int64_t rows = RowOf(row).split.segments[i];
        Part(names[i] + kind, row, first, rows, heads.empty() ? 0 : heads[i]);
        first += rows;
      }
    }
  }
  void Block(std::int64_t layer);
  void FeedForward(const std::string& at, std::int64_t layer);
  // Rows [first, first + rows) of each of `stride` rows of a matrix for each expert.
  void OfExperts(const std::string& name, int row, std::int64_t first, std::int64_t rows, std::int64_t stride) {
    const Shape& shape = RowOf(row).shape;
    tensors_.push_back(
        {.name = name, .shape = {shape[0], rows, shape[2]}, .row = row, .first_row = first, .stride = stride});
  }
  void Experts(const std::string& at, std::int64_t layer);

  std::vector<GgufTensor> Take() { return std::move(tensors_); }

 private:
  const Parameter& RowOf(int row) const { return table_.rows()[static_cast<std::size_t>(row)]; }
  void Part(const std::string& name, int row, std::int64_t first, std::int64_t rows, std::int64_t heads) {
    const Parameter& parameter = RowOf(row);
    std::vector<std::int64_t> shape = {rows};
    if (parameter.shape.rank() == 2) {
      shape.push_back(parameter.shape[1]);
    }
    const bool gain = parameter.role == ParameterRole::kNormGain;
    tensors_.push_back({.name = name,
                        .shape = shape,
                        .row = row,
                        .first_row = first,
                        .heads = heads,
                        .add = gain ? static_cast<float>(table_.config().gain_offset) : 0});
  }

  const ParameterTable& table_;
  const GgufArchitecture& architecture_;
  std::vector<GgufTensor> tensors_;
};

void Listing::Block(std::int64_t layer) {
  const ModelConfig& model = table_.config();
  const std::string at = fmt::format("blk.{}.", layer);
  Norm(at + "attn_norm", layer, "attention.norm");
  if (architecture_.fused_projections) {
    Linear(at + "attn_qkv", layer, "attention.qkv");
  } else {
    const std::vector<std::int64_t> heads = {model.heads, model.kv_heads, 0};
    Segments({at + "attn_q", at + "attn_k", at + "attn_v"}, layer, "attention.qkv",
             architecture_.paired_rotary ? heads : std::vector<std::int64_t>());
  }
  Norm(at + "attn_q_norm", layer, "attention.query_norm");
  Norm(at + "attn_k_norm", layer, "attention.key_norm");
  Linear(at + "attn_output", layer, "attention.out");
  Norm(at + "post_attention_norm", layer, "attention.post_norm");
  Norm(at + "ffn_norm", layer, "mlp.norm");
  if (model.experts.any()) {
    Experts(at, layer);
  } else {
    FeedForward(at, layer);
  }
  Norm(at + "post_ffw_norm", layer, "mlp.post_norm");
}

void Listing::Experts(const std::string& at, std::int64_t layer) {
  const ExpertsConfig& experts = table_.config().experts;
  const std::int64_t hidden = table_.config().hidden;
  Whole(at + "ffn_gate_inp.weight", table_.InBlock(layer, "router.weight"));
  const int in = table_.InBlock(layer, "experts.in.weight");
  OfExperts(at + "ffn_gate_exps.weight", in, 0, experts.ffn, 2 * experts.ffn);
  OfExperts(at + "ffn_up_exps.weight", in, experts.ffn, experts.ffn, 2 * experts.ffn);
  OfExperts(at + "ffn_down_exps.weight", table_.InBlock(layer, "experts.out.weight"), 0, hidden, hidden);
  if (experts.shared_ffn > 0) {
    Segments({at + "ffn_gate_shexp", at + "ffn_up_shexp"}, layer, "shared.in", {});
    Linear(at + "ffn_down_shexp", layer, "shared.out");
    tensors_.push_back(
        {.name = at + "ffn_gate_inp_shexp.weight", .shape = {hidden}, .row = table_.InBlock(layer, "shared.gate")});
  }
}

void Listing::FeedForward(const std::string& at, std::int64_t layer) {
  const ModelConfig& model = table_.config();
  if (IsGated(model.feed_forward) && !architecture_.fused_gate) {
    Segments({at + "ffn_gate", at + "ffn_up"}, layer, "mlp.in", {});
  } else {
    Linear(at + "ffn_up", layer, "mlp.in");
  }
  Linear(at + "ffn_down", layer, "mlp.out");
}

}  // namespace

std::vector<GgufTensor> GgufTensors(const ParameterTable& table, const GgufArchitecture& architecture) {
  Listing list(table, architecture);
  list.Whole("token_embd.weight", table.token_table());
  list.Whole("position_embd.weight", table.Find("embedding.position"));
  list.Whole("token_embd_norm.weight", table.Find("embedding.norm.gain"));
  list.Whole("token_embd_norm.bias", table.Find("embedding.norm.bias"));
  for (std::int64_t layer = 0; layer < table.config().layers; ++layer) {
    list.Block(layer);
  }
  list.Whole("output_norm.weight", table.Find("head.norm.gain"));
  list.Whole("output_norm.bias", table.Find("head.norm.bias"));
  if (!table.config().tie_embeddings || architecture.own_output) {
    list.Whole("output.weight", table.config().tie_embeddings ? table.token_table() : table.Find("head.weight"));
  }
  return list.Take();
}

GgufType GgufTensor::TypeIn(GgufType type) const {
  if (shape.size() < 2 || name.starts_with("position_embd") || name.find("ffn_gate_inp") != std::string::npos) {
    return GgufType::kF32;
  }
  return type == GgufType::kQ8 && shape.back() % kQ8Block != 0 ? GgufType::kF16 : type;
}

std::vector<float> GgufValues(const GgufTensor& tensor, std::span<const float> parameter) {
  const std::int64_t columns = tensor.shape.size() > 1 ? tensor.shape.back() : 1;
  if (tensor.stride > 0) {
    std::vector<float> values;
    for (std::int64_t expert = 0; expert < tensor.shape[0]; ++expert) {
      const float* first = parameter.data() + (expert * tensor.stride + tensor.first_row) * columns;
      values.insert(values.end(), first, first + tensor.shape[1] * columns);
    }
    return values;
  }
  const float* from = parameter.data() + tensor.first_row * columns;
  std::vector<float> values(from, from + tensor.shape[0] * columns);
  for (float& value : values) {
    value += tensor.add;
  }
  if (tensor.heads == 0) {
    return values;
  }
  const std::int64_t size = tensor.shape[0] / tensor.heads;
  for (std::int64_t row = 0; row < tensor.shape[0]; ++row) {
    const std::int64_t within = row % size;
    const std::int64_t source = row - within + (within % 2) * (size / 2) + within / 2;
    std::copy_n(from + source * columns, columns, values.begin() + row * columns);
  }
  return values;
}

std::int64_t GgufContext(const ModelConfig& model, const GgufArchitecture& architecture) {
  return model.window > 0 && !architecture.windows ? std::min(model.sequence, model.window) : model.sequence;
}

namespace {

void AddRotary(const ModelConfig& model, const std::string& at, GgufHeader& header) {
  header.Count(at + "rope.dimension_count", model.rotary_size());
  header.Number(at + "rope.freq_base", model.rope_theta);
  if (model.local_rope_theta > 0) {
    header.Number(at + "rope.freq_base_swa", model.local_rope_theta);
  }
  if (model.rope_scaling == RopeScaling::kLinear || model.rope_scaling == RopeScaling::kYarn) {
    header.Text(at + "rope.scaling.type", Name(model.rope_scaling));
    header.Number(at + "rope.scaling.factor", model.rope_factor);
  }
  if (model.rope_scaling == RopeScaling::kLongRope) {
    header.Count(at + "rope.scaling.original_context_length", model.rope_original);
    header.Number(at + "rope.scaling.attn_factor",
                  LongRopeMagnitude(model.rope_factor, static_cast<double>(model.rope_original)));
  }
  if (model.rope_scaling == RopeScaling::kYarn) {
    header.Count(at + "rope.scaling.original_context_length",
                 model.rope_original > 0 ? model.rope_original : model.sequence);
    if (model.rope_high > 0) {
      header.Number(at + "rope.scaling.yarn_beta_fast", model.rope_high);
    }
    if (model.rope_low > 0) {
      header.Number(at + "rope.scaling.yarn_beta_slow", model.rope_low);
    }
  }
}

void AddGemma(const ModelConfig& model, const GgufArchitecture& architecture, const std::string& at,
              GgufHeader& header) {
  // Gemma 2 has a window in llama.cpp whether a file says so or not.
  if (model.window > 0 || architecture.capped) {
    header.Count(at + "attention.sliding_window", model.window > 0 ? model.window : model.sequence);
    header.Count(at + "attention.sliding_window_pattern", model.window_period);
  }
  if (model.attention_cap > 0) {
    header.Number(at + "attn_logit_softcapping", model.attention_cap);
  }
  if (model.logit_cap > 0) {
    header.Number(at + "final_logit_softcapping", model.logit_cap);
  }
}

}  // namespace

void AddGgufShape(const ModelConfig& model, const GgufArchitecture& architecture, GgufHeader& header) {
  const std::string at = std::string(architecture.name) + ".";
  header.Count(at + "context_length", GgufContext(model, architecture));
  header.Count(at + "embedding_length", model.hidden);
  header.Count(at + "block_count", model.layers);
  // Where llama.cpp knows one width alone, it is that of experts.
  header.Count(at + "feed_forward_length", GgufWidth(model));
  header.Count(at + "attention.head_count", model.heads);
  header.Count(at + "attention.head_count_kv", model.kv_heads);
  header.Count(at + "attention.key_length", model.head_size());
  header.Count(at + "attention.value_length", model.head_size());
  header.Count(at + "vocab_size", model.vocabulary);
  header.Number(
      at + (model.norm == NormKind::kRms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon"),
      model.norm_epsilon);
  if (model.position == PositionChoice::kRotary) {
    AddRotary(model, at, header);
  }
  if (architecture.windows) {
    AddGemma(model, architecture, at, header);
  }
  if (architecture.add != nullptr) {
    architecture.add(model, at, header);
  }
}

std::vector<GgufDivisors> GgufRotaryDivisors(const ModelConfig& model) {
  const auto divisors = [&](const char* name, std::int64_t positions) {
    const RotaryAngles angles = RotaryAnglesOf(model, 0, positions);
    const auto size = static_cast<double>(model.rotary_size());
    GgufDivisors made{.name = name, .values = {}};
    for (std::size_t pair = 0; pair < angles.frequencies.size(); ++pair) {
      const double plain = std::pow(model.rope_theta, -2.0 * static_cast<double>(pair) / size);
      made.values.push_back(static_cast<float>(plain / angles.frequencies[pair]));
    }
    return made;
  };
  if (model.position == PositionChoice::kRotary && model.rope_scaling == RopeScaling::kLlama3) {
    return {divisors("rope_freqs.weight", 0)};
  }
  if (model.position == PositionChoice::kRotary && model.rope_scaling == RopeScaling::kLongRope) {
    return {divisors("rope_factors_long.weight", model.rope_original + 1),
            divisors("rope_factors_short.weight", model.rope_original)};
  }
  return {};
}

}  // namespace trireme
