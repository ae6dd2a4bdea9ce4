// Mistral: Llama's block; attention of the first release sees a window of keys (Jiang et al. 2023).
#include "model/families.h"
#include "model/llama_like.h"

namespace trireme {

ModelFamily MistralFamily() {
  return {.name = "mistral",
          .description = "Llama with a window of attention where model.window is set",
          .complete = CompleteLikeLlama};
}

}  // namespace trireme
