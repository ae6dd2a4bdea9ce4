// OLMo 3: OLMo 2 with three windowed layers to one that sees all keys; rotary positions are scaled in the latter alone
// (Olmo Team 2025).
#include "model/families.h"
#include "model/llama_like.h"

namespace trireme {
namespace {

void CompleteOlmo3(ModelConfig& config, bool tie_given) {
  CompleteLikeOlmo2(config, tie_given);
  if (config.window_period == 0 && config.layer_types.empty()) {
    config.window_period = 4;
  }
  if (config.local_rope_theta == 0) {
    config.local_rope_theta = config.rope_theta;
  }
}

}  // namespace

ModelFamily Olmo3Family() {
  return {.name = "olmo3", .description = "OLMo 2 with three windows to one", .complete = CompleteOlmo3};
}

}  // namespace trireme
