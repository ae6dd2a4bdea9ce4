#include "lowering/local_sizes.h"

#include <algorithm>

#include "base/causal_pairs.h"
#include "model/parameter_table.h"

namespace trireme {

LocalSizes::LocalSizes(const ModelConfig& config, const ParallelLayout& layout, DType product_dtype,
                       bool split_backward_parts, bool plain)
    : dtype(IsFloat8(product_dtype) ? DType::kBFloat16 : product_dtype),
      float8(IsFloat8(product_dtype)),
      tensor(layout.tensor),
      context(layout.context),
      stripes(layout.context_stripes),
      context_rank(0),
      head_ranks(HeadRanks(config, layout)),
      ulysses(head_ranks > 1),
      ring((layout.context_kind == ContextKind::kRing || layout.context_kind == ContextKind::kUlyssesRing) &&
           layout.context > head_ranks),
      sequence_parallel(layout.sequence_parallel && layout.tensor > 1),
      split_backward(split_backward_parts),
      dropout(config.dropout > 0),
      attention_dropout(config.attention_dropout > 0),
      plain_attention(plain),
      batch(layout.micro_batch),
      keys(config.sequence),
      sequence(keys / context),
      tokens(batch * sequence),
      outside(sequence_parallel ? tokens / tensor : tokens),
      hidden(config.hidden),
      heads(config.heads / tensor),
      kv_heads((config.kv_heads == 0 ? config.heads : config.kv_heads) / tensor),
      head_size(config.head_size()),
      attention(heads * head_size),
      qkv((heads + 2 * kv_heads) * head_size),
      ffn(0),
      ffn_in(0),
      experts(0),
      chosen(0),
      expert_ffn(0),
      vocabulary(PaddedShare(config.vocabulary, tensor)),
      window(config.WindowOf(0)),
      rotary(config.AttentionOf(0).rotary),
      gated(IsGated(config.feed_forward)),
      fused_activation(config.feed_forward == ActivationKind::kGelu),
      recompute_norms(layout.recompute != Recompute::kNone),
      recompute_activation(layout.recompute != Recompute::kNone),
      recompute_attention(layout.recompute == Recompute::kSelective && !split_backward),
      recompute_block(layout.recompute == Recompute::kFull),
      frozen(config.adapter.any()) {
  *this = OfKind(config, config.experts.any());
  if (recompute_block) {
    // A block that is computed again whole keeps nothing but its input; within that second forward nothing is dropped.
    recompute_norms = recompute_activation = recompute_attention = false;
  }
}

LocalSizes LocalSizes::WithoutRecompute() const {
  LocalSizes sizes = *this;
  sizes.recompute_norms = sizes.recompute_activation = sizes.recompute_attention = sizes.recompute_block = false;
  return sizes;
}

LocalSizes LocalSizes::OfKind(const ModelConfig& config, bool sparse) const {
  LocalSizes sizes = *this;
  sizes.ffn = (sparse ? config.experts.shared_ffn : config.ffn) / tensor;
  sizes.ffn_in = gated ? 2 * sizes.ffn : sizes.ffn;
  sizes.experts = sparse ? config.experts.count : 0;
  sizes.chosen = sparse ? config.experts.chosen : 0;
  sizes.expert_ffn = sparse ? config.experts.ffn / tensor : 0;
  return sizes;
}

LocalSizes LocalSizes::WithAttention(const AttentionKind& kind) const {
  LocalSizes sizes = *this;
  sizes.window = kind.window;
  sizes.rotary = kind.rotary;
  return sizes;
}

LocalSizes LocalSizes::ForLayer(const ModelConfig& config, std::int64_t layer) const {
  return OfKind(config, config.IsSparse(layer)).WithAttention(config.AttentionOf(layer));
}

LocalSizes LocalSizes::OfAttention() const {
  LocalSizes sizes = *this;
  sizes.head_ranks = 1;
  sizes.ulysses = false;
  sizes.context /= head_ranks;
  sizes.context_rank /= head_ranks;
  sizes.sequence *= head_ranks;
  sizes.tokens *= head_ranks;
  sizes.heads /= head_ranks;
  sizes.kv_heads /= head_ranks;
  sizes.attention /= head_ranks;
  sizes.qkv /= head_ranks;
  return sizes;
}

std::int64_t LocalSizes::SeenPairs() const {
  if (ulysses) {
    return OfAttention().SeenPairs();
  }
  std::int64_t pairs = 0;
  for (const std::int64_t first : share().Chunks()) {
    pairs += CausalPairsBelow(first, share().chunk(), keys, window);
  }
  return heads * pairs;
}

std::int64_t HeadChunk(const LocalSizes& sizes, std::int64_t wanted) {
  if (wanted > 0) {
    return std::min(wanted, sizes.tokens);
  }
  constexpr std::int64_t kLogitBytes = std::int64_t{512} << 20;
  const std::int64_t rows = kLogitBytes / (sizes.vocabulary * sizes.element()) / 128 * 128;
  return std::min(sizes.tokens, std::max<std::int64_t>(rows, 128));
}

}  // namespace trireme
