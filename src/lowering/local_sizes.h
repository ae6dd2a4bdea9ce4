// The extents that one rank works with: a model cut by a layout. Everything in cost, nn and train that needs a size
// reads it here, so that what is planned and what is done cannot differ.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "model/float8_products.h"
#include "model/model_config.h"
#include "topology/context_share.h"
#include "topology/layout.h"

namespace trireme {

struct LocalSizes {
  // Sizes of blocks with experts where the model has any. Requires RequireDivisible(config, layout) to hold.
  // product_dtype: of the blocks' matrix products; e4m3 stands for fp8 products of bf16 tensors. split_backward: the
  // schedule runs backward in two parts. plain_attention: train.attention = "plain".
  LocalSizes(const ModelConfig& config, const ParallelLayout& layout, DType product_dtype, bool split_backward,
             bool plain_attention = false);

  DType dtype;  // of weights and activations
  bool float8;  // the blocks' products take fp8 copies of them
  // Whether the copies of weights are made once a step and kept (see WithFloat8Weights in cost/step_cost.h).
  bool float8_weights = false;
  LinearSet float8_linears = kAllLinears;  // of float8: those that are; train.fp8_products
  int tensor;                              // degree
  int context;                             // degree
  int stripes;                             // of the context axis: see ContextShare
  int context_rank;        // 0 unless it is set; only FLOPs of windowed attention differ between context ranks
  int head_ranks;          // context ranks of a group that swaps tokens for heads: HeadRanks; 1 without Ulysses
  bool ulysses;            // head_ranks > 1: attention is over a group's tokens and some heads
  bool ring;               // and context > head_ranks: attention is over the keys of one rank after another
  bool sequence_parallel;  // and tensor > 1
  bool split_backward;
  bool dropout;            // probability above 0
  bool attention_dropout;  // likewise
  bool plain_attention;    // the weights of all queries and keys are stored

  std::int64_t batch;     // B: sequences of a micro batch
  std::int64_t keys;      // T: tokens of a whole sequence
  std::int64_t sequence;  // of them here: T / context
  std::int64_t tokens;    // N = B * sequence
  std::int64_t outside;   // n: tokens this rank holds outside the tensor region: N / tensor under sequence parallelism
  std::int64_t hidden;    // C
  std::int64_t heads;     // of this rank
  std::int64_t kv_heads;
  std::int64_t head_size;   // D
  std::int64_t attention;   // heads * D
  std::int64_t qkv;         // (heads + 2 * kv_heads) * D
  std::int64_t ffn;         // F of this rank; of a layer with experts that of the shared expert, 0 without one
  std::int64_t ffn_in;      // F, or 2F for a gated feed-forward
  std::int64_t experts;     // E; 0 in a dense layer, as are the next two
  std::int64_t chosen;      // k, of a token
  std::int64_t expert_ffn;  // F of an expert, of this rank
  std::int64_t vocabulary;  // rows of the vocabulary with padding, of this rank
  std::int64_t window;      // of the layer: keys that a query sees at most; 0: all
  bool rotary;              // of the layer: queries and keys are turned by their positions
  bool gated;
  bool fused_activation;      // the product before it computes the activation function
  bool recompute_norms;       // light, selective, full
  bool recompute_activation;  // likewise
  bool recompute_attention;   // selective; not under a split backward, whose weight part needs the attention's output
  bool recompute_block;       // full
  bool frozen;                // only adapters are trained: embedding and head make no gradients of parameters

  std::int64_t element() const { return SizeOf(dtype); }
  // A row for each expert that a token goes to.
  std::int64_t rows() const { return tokens * chosen; }
  // Which tokens of every sequence are here.
  ContextShare share() const { return {.sequence = keys, .degree = context, .rank = context_rank, .stripes = stripes}; }
  // The sizes that attention has: under Ulysses the tokens of head_ranks ranks and a part of the heads, where the group
  // stands for one rank of a shorter context axis; otherwise these.
  LocalSizes OfAttention() const;
  // Query-key pairs of one sequence in this rank's attention, summed over its query heads: those that the mask leaves,
  // and those that are counted, which are all of them in plain attention.
  std::int64_t SeenPairs() const;
  std::int64_t HeadPairs() const { return plain_attention ? heads * sequence * keys : SeenPairs(); }
  // The sizes of a block that keeps everything, for layers beyond layout.recompute_layers.
  LocalSizes WithoutRecompute() const;
  // The sizes of a block with experts, or of a dense one.
  LocalSizes OfKind(const ModelConfig& config, bool sparse) const;
  LocalSizes WithAttention(const AttentionKind& kind) const;
  // The sizes of block `layer`: those of a model's blocks differ in their attention and in whether they have experts.
  LocalSizes ForLayer(const ModelConfig& config, std::int64_t layer) const;
  bool operator==(const LocalSizes&) const = default;
};

// Tokens whose logits exist at once: about 512 MiB of them, a multiple of 128 (or all); `wanted` above 0 decides.
std::int64_t HeadChunk(const LocalSizes& sizes, std::int64_t wanted);

}  // namespace trireme
