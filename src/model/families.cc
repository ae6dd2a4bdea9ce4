#include "model/families.h"

#include "base/error.h"

namespace trireme {

const std::vector<ModelFamily>& ModelFamilies() {
  static const std::vector<ModelFamily> families = {
      Gpt2Family(),   BloomFamily(), LlamaFamily(), MistralFamily(),  Qwen2Family(),   Qwen3Family(), Gemma2Family(),
      Gemma3Family(), Olmo2Family(), Phi3Family(),  NemotronFamily(), GptNeoXFamily(), OptFamily(),   MptFamily(),
  };
  return families;
}

const ModelFamily& FindModelFamily(const std::string& name) {
  std::string known;
  std::vector<std::string> names;
  for (const ModelFamily& family : ModelFamilies()) {
    if (family.name == name) {
      return family;
    }
    known += (known.empty() ? "" : ", ") + family.name;
    names.push_back(family.name);
  }
  Fail("model.family = '{}' is unknown{}; known: {}", name, NearestMatch(name, names), known);
}

}  // namespace trireme
