#include "planner/validation/run_model.h"

#include <algorithm>
#include <cmath>

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

}  // namespace

ModelConfig ModelOfRun(const MeasuredRun& run) {
  NamedFamily family = kFamilies[0];
  for (const NamedFamily& known : kFamilies) {
    family = run.family == known.name ? known : family;
  }
  ModelConfig model{.family = family.base,
                    .layers = WholeOf(run.layers, 1),
                    .hidden = WholeOf(run.hidden, 1),
                    .heads = WholeOf(run.heads, 1),
                    .kv_heads = WholeOf(run.kv_heads, 0),
                    .ffn = WholeOf(run.ffn, 0),
                    .vocabulary = WholeOf(run.vocabulary, family.vocabulary),
                    .sequence = WholeOf(run.sequence, 1),
                    .tie_embeddings = run.tied ? *run.tied != 0 : family.tied};
  if (family.nemotron && model.ffn == 0) {
    model.ffn = 4 * model.hidden;
  }
  model = Completed(model, true);
  if (family.nemotron) {
    model.feed_forward = ActivationKind::kSquaredRelu;
    model.norm = NormKind::kLayer;
  }
  if (family.no_bias) {
    model.norm_bias = model.qkv_bias = model.linear_bias = false;
  }
  return model;
}

void SpreadKeyHeads(int tensor, ModelConfig& model) {
  if (model.kv_heads % tensor != 0 && tensor % model.kv_heads == 0 && model.heads % tensor == 0) {
    model.kv_heads = tensor;
  }
}

}  // namespace trireme
