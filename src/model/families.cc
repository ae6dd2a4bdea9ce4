#include "model/families.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace trireme {

const std::vector<ModelFamily>& ModelFamilies() {
  static const std::vector<ModelFamily> families = {
      Gpt2Family(),    BloomFamily(),  LlamaFamily(), MistralFamily(), Qwen2Family(), Qwen3Family(),
      Gemma2Family(),  Gemma3Family(), Olmo2Family(), OlmoeFamily(),   Phi3Family(),  NemotronFamily(),
      GptNeoXFamily(), OptFamily(),    MptFamily(),   SmolLm3Family(), Olmo3Family(), GraniteFamily(),
  };
  return families;
}

std::string FamilyWithExperts(const std::string& name) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kNames = {
      {{"mixtral", "mistral"}, {"qwen2_moe", "qwen2"}, {"qwen3_moe", "qwen3"}, {"granitemoe", "granite"}}};
  const auto found = std::find_if(kNames.begin(), kNames.end(), [&](const auto& known) { return known.first == name; });
  return found == kNames.end() ? "" : std::string(found->second);
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
