// MPT: ALiBi, LayerNorm without biases, GELU, no biases at all (MosaicML 2023).
#include "model/families.h"

namespace trireme {
namespace {

void CompleteMpt(ModelConfig& config, bool tie_given) {
  config.position = PositionChoice::kAlibi;
  config.finer_alibi = true;
  config.feed_forward = ActivationKind::kExactGelu;
  config.norm_bias = config.qkv_bias = config.out_bias = config.linear_bias = false;
  if (config.ffn == 0) {
    config.ffn = 4 * config.hidden;
  }
  if (!tie_given) {
    config.tie_embeddings = true;
  }
}

}  // namespace

ModelFamily MptFamily() {
  return {.name = "mpt", .description = "ALiBi, LayerNorm, GELU, no biases, tied output", .complete = CompleteMpt};
}

}  // namespace trireme
