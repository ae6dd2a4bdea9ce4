// Phi-3 and Phi-4-mini: Llama's block; rotary positions may turn a part of each head (Abdin et al. 2024).
#include "model/families.h"
#include "model/llama_like.h"

namespace trireme {

ModelFamily Phi3Family() {
  return {.name = "phi3",
          .description = "Llama with rotary positions of a part of each head and windows",
          .complete = CompleteLikeLlama};
}

}  // namespace trireme
