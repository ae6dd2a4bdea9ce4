// The shape of a model and the choices of its family, as data. One transformer block reads its choices from here;
// a family is a file that fills them in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topology/layout.h"

namespace trireme {

enum class NormChoice : std::uint8_t { kLayerNorm, kRmsNorm };
enum class PositionChoice : std::uint8_t { kLearned, kAlibi, kRotary };
// An RMS norm of queries and keys before their positions: of each head by itself, or of all heads together.
enum class QkNormChoice : std::uint8_t { kNone, kEachHead, kAllHeads };
enum class FeedForwardChoice : std::uint8_t { kGelu, kSwiGlu };

struct ModelConfig {
  std::string family = "gpt2";
  std::int64_t layers = 2;
  std::int64_t hidden = 64;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 0;  // 0: as many as heads
  std::int64_t ffn = 0;       // 0: the family's rule
  std::int64_t vocabulary = 256;
  std::int64_t sequence = 64;
  bool tie_embeddings = true;
  double dropout = 0;  // after the embedding and after each of a block's two branches
  double norm_epsilon = 1e-5;
  double rope_theta = 10000;
  double initial_deviation = 0.02;

  // Set by the family:
  NormChoice norm = NormChoice::kLayerNorm;
  PositionChoice position = PositionChoice::kLearned;
  FeedForwardChoice feed_forward = FeedForwardChoice::kGelu;
  QkNormChoice qk_norm = QkNormChoice::kNone;
  bool biases = true;           // of linear layers and norms
  bool embedding_norm = false;  // a norm right after the embedding

  std::int64_t head_size() const { return hidden / heads; }
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
// gpt2, bloom, llama: the register (model/families.cc has one line each).
const std::vector<ModelFamily>& ModelFamilies();
// An Error names the nearest known family.
const ModelFamily& FindModelFamily(const std::string& name);
// Family defaults applied and the shape checked by itself (positive, heads divide hidden, kv_heads divide heads, rotary
// needs an even head size, numbers below 2^31 where they index).
ModelConfig Completed(ModelConfig config, bool tie_given = false);
// Checks that `layout` can cut `config`: heads, kv_heads and ffn by tensor, tokens by tensor under sequence
// parallelism. The Error names the factor and the nearest values that would do.
void RequireDivisible(const ModelConfig& config, const ParallelLayout& layout);

// All parameters, unpadded; a tied table counts once.
std::int64_t ParameterCount(const ModelConfig& config);
// ALiBi slope of each head, as BLOOM defines it.
std::vector<float> AlibiSlopes(std::int64_t heads);

}  // namespace trireme
