#include "checkpoint/hugging_face/choice_keys.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"

namespace trireme {
namespace {

// Several names of one function; the first of each is the one that is written.
struct ActivationName {
  std::string_view name;
  ActivationChoice choice;
};
constexpr std::array<ActivationName, 9> kNames = {{{"silu", ActivationChoice::kSilu},
                                                   {"swish", ActivationChoice::kSilu},
                                                   {"gelu", ActivationChoice::kGelu},
                                                   {"gelu_python", ActivationChoice::kGelu},
                                                   {"gelu_new", ActivationChoice::kGeluTanh},
                                                   {"gelu_pytorch_tanh", ActivationChoice::kGeluTanh},
                                                   {"gelu_fast", ActivationChoice::kGeluTanh},
                                                   {"relu", ActivationChoice::kRelu},
                                                   {"relu2", ActivationChoice::kSquaredRelu}}};

const ActivationName* Find(std::string_view name) {
  return std::find_if(kNames.begin(), kNames.end(), [&](const ActivationName& known) { return known.name == name; });
}

}  // namespace

void ParseActivation(const ConfigKeys& keys, const char* key, const char* usual, ModelConfig& model) {
  const std::string name = keys.Text(key, usual);
  const ActivationName* const found = Find(name);
  Require(found != kNames.end(),
          "'{}': '{}' = '{}'; this program computes silu, gelu, gelu_new, relu, relu2 and other names of these",
          keys.origin(), key, name);
  model.activation = found->choice == Find(usual)->choice ? ActivationChoice::kAutomatic : found->choice;
}

std::string FormatActivation(const ModelConfig& model) {
  switch (model.feed_forward) {
    case ActivationKind::kSwiGlu:
    case ActivationKind::kSilu:
      return "silu";
    case ActivationKind::kExactGelu:
    case ActivationKind::kExactGeGlu:
      return "gelu";
    case ActivationKind::kGelu:
    case ActivationKind::kGeGlu:
      return "gelu_new";
    case ActivationKind::kRelu:
    case ActivationKind::kReGlu:
      return "relu";
    case ActivationKind::kSquaredRelu:
      return "relu2";
  }
  return "";
}

BiasChoice ParseBias(const ConfigKeys& keys, const char* key, bool usual) {
  const bool given = keys.Flag(key, usual);
  return given == usual ? BiasChoice::kAutomatic : given ? BiasChoice::kYes : BiasChoice::kNo;
}

}  // namespace trireme
