#include "planner/validation/run_model.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string_view>

#include "base/error.h"

namespace trireme {
namespace {

std::int64_t WholeOf(const std::optional<double>& value, std::int64_t fallback) {
  return value && *value >= 1 ? static_cast<std::int64_t>(std::llround(std::min(*value, 1e12))) : fallback;
}

// What a table of runs calls a family, and the habits of those who train it.
struct NamedFamily {
  const char* name;
  const char* base;  // of the trainer's families, the one that it differs least from
  bool tied;
  std::int64_t vocabulary;
  // What sets it apart from its base once that is completed.
  bool no_bias = false;
  bool nemotron = false;  // squared ReLU between two matrices, norms with a mean, rotary positions
};
constexpr NamedFamily kFamilies[] = {
    {"gpt", "gpt2", true, 51'200},       {"gpt2", "gpt2", true, 51'200},
    {"mpt", "gpt2", true, 50'368, true}, {"bloom", "bloom", true, 250'880},
    {"llama", "llama", false, 128'256},  {"mistral", "llama", false, 32'000},
    {"qwen", "llama", false, 152'064},   {"grok", "llama", false, 128'256},
    {"mixtral", "llama", false, 32'000}, {"nemotron", "llama", false, 256'000, false, true},
};

// What families of models with experts have beyond the columns of a table, by how their names begin, as their releases
// say (config.json of each). Numbers that a table gives take precedence.
struct ExpertFamily {
  const char* begins;
  std::int64_t vocabulary;
  std::int64_t head_dim;      // 0: hidden / heads
  std::int64_t dense_layers;  // the first ones
  std::int64_t period;        // every so many layers one has experts
  LatentAttention latent;
  std::int64_t shared;  // experts that every token has, where the table does not say
  std::int64_t window;  // of every other layer
};
constexpr ExpertFamily kExpertFamilies[] = {
    {"deepseekv3", 129'280, 128, 3, 1, {1536, 512, 64}, 1, 0},
    {"deepseekr1", 129'280, 128, 3, 1, {1536, 512, 64}, 1, 0},
    {"deepseekv2lite", 102'400, 128, 1, 1, {0, 512, 64}, 2, 0},
    {"deepseek", 129'280, 128, 1, 1, {1536, 512, 64}, 1, 0},
    {"moonlight", 163'840, 128, 1, 1, {0, 512, 64}, 2, 0},
    {"kimi", 163'840, 128, 1, 1, {1536, 512, 64}, 1, 0},
    {"qwen3", 151'936, 128, 0, 1, {}, 0, 0},
    {"qwen", 151'936, 0, 0, 1, {}, 0, 0},
    {"gptoss", 201'088, 64, 0, 1, {}, 0, 128},
    {"llama4", 202'048, 128, 0, 1, {}, 1, 0},
    {"mixtral", 32'000, 0, 0, 1, {}, 0, 0},
    {"olmoe", 50'304, 0, 0, 1, {}, 0, 0},
    {"granite", 49'155, 0, 0, 1, {}, 0, 0},
    {"glm", 151'552, 128, 1, 1, {}, 1, 0},
    {"", 128'256, 0, 0, 1, {}, 0, 0},
};

ExpertFamily ExpertFamilyOf(const MeasuredRun& run) {
  std::string plain;
  for (const char letter : run.family) {
    if (std::isalnum(static_cast<unsigned char>(letter)) != 0) {
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    }
  }
  for (const ExpertFamily& family : kExpertFamilies) {
    if (plain.starts_with(family.begins)) {
      return family;
    }
  }
  return kExpertFamilies[std::size(kExpertFamilies) - 1];
}

// What every model has; `vocabulary`: where the table has none.
ModelConfig ShapeOf(const MeasuredRun& run, const char* family, std::int64_t vocabulary) {
  return {.family = family,
          .layers = WholeOf(run.layers, 1),
          .hidden = WholeOf(run.hidden, 1),
          .heads = WholeOf(run.heads, 1),
          .kv_heads = WholeOf(run.kv_heads, 0),
          .ffn = WholeOf(run.ffn, 0),
          .vocabulary = WholeOf(run.vocabulary, vocabulary),
          .sequence = WholeOf(run.sequence, 1)};
}

// Gated experts without biases between layers of Llama's kind.
ModelConfig ModelWithExperts(const MeasuredRun& run) {
  ExpertFamily family = ExpertFamilyOf(run);
  ModelConfig model = ShapeOf(run, "llama", family.vocabulary);
  model.head_dim = WholeOf(run.head_dim, family.head_dim);
  model.tie_embeddings = run.tied && *run.tied != 0;
  const std::int64_t count = WholeOf(run.experts, 1);
  constexpr std::int64_t kMaverick = 128;  // of Llama 4's sizes the one with a dense layer before each sparse one
  if (std::string_view(family.begins) == "llama4" && count == kMaverick) {
    family.period = 2;
  }
  model.experts = {
      .count = count,
      .chosen = WholeOf(run.experts_per_token, 1),
      .ffn = WholeOf(run.expert_ffn, model.ffn),
      .dense_layers = std::min(WholeOf(run.dense_layers, run.dense_layers ? 0 : family.dense_layers), model.layers - 1),
      .period = std::min(family.period, model.layers)};
  model.experts.shared_ffn = WholeOf(run.shared_ffn, run.shared_ffn ? 0 : family.shared * model.experts.ffn);
  if (model.ffn == 0) {
    // Where a table has the width of experts alone, dense layers are as wide as the experts of a token together.
    model.ffn = model.experts.chosen * model.experts.ffn + model.experts.shared_ffn;
  }
  if (model.head_dim == 0 && model.hidden % model.heads != 0) {
    model.head_dim = 128;
  }
  model.latent = family.latent;
  if (model.latent.any()) {
    model.kv_heads = model.heads;
  }
  model.window = family.window;
  model.window_period = family.window > 0 ? 2 : 0;
  return Completed(model, true);
}

}  // namespace

ModelConfig ModelOfRun(const MeasuredRun& run) {
  if (run.experts && *run.experts > 1) {
    return ModelWithExperts(run);
  }
  NamedFamily family = kFamilies[0];
  for (const NamedFamily& known : kFamilies) {
    family = run.family == known.name ? known : family;
  }
  ModelConfig model = ShapeOf(run, family.base, family.vocabulary);
  model.tie_embeddings = run.tied ? *run.tied != 0 : family.tied;
  if (family.nemotron && model.ffn == 0) {
    model.ffn = 4 * model.hidden;
  }
  model = Completed(model, true);
  if (family.nemotron) {
    model.feed_forward = ActivationKind::kSquaredRelu;
    model.norm = NormKind::kLayer;
  }
  if (family.no_bias) {
    model.norm_bias = model.qkv_bias = model.out_bias = model.linear_bias = false;
  }
  return model;
}

void SpreadKeyHeads(int tensor, ModelConfig& model) {
  if (model.kv_heads % tensor != 0 && tensor % model.kv_heads == 0 && model.heads % tensor == 0) {
    model.kv_heads = tensor;
  }
}

}  // namespace trireme
