#include "lowering/linear_shape.h"

namespace trireme {

LinearShape ShapeOf(BlockLinear linear, const LocalSizes& sizes, bool bias) {
  switch (linear) {
    case BlockLinear::kQkv:
      return {sizes.tokens, sizes.qkv, sizes.hidden, bias};
    case BlockLinear::kAttentionOut:
      return {sizes.tokens, sizes.hidden, sizes.attention, bias};
    case BlockLinear::kFfnIn:
      return {sizes.tokens, sizes.ffn_in, sizes.hidden, bias};
    case BlockLinear::kFfnOut:
      return {sizes.tokens, sizes.hidden, sizes.ffn, bias};
    case BlockLinear::kRouter:
      return {sizes.tokens, sizes.experts, sizes.hidden, bias};
    case BlockLinear::kGate:
      return {sizes.tokens, 1, sizes.hidden, bias};
    case BlockLinear::kExpertIn:
      return {sizes.rows(), 2 * sizes.expert_ffn, sizes.hidden, bias};
    case BlockLinear::kExpertOut:
      return {sizes.rows(), sizes.hidden, sizes.expert_ffn, bias};
    case BlockLinear::kHead:
      return {sizes.tokens, sizes.vocabulary, sizes.hidden, bias};
  }
  return {};
}

}  // namespace trireme
