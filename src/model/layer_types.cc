#include "model/layer_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "base/error.h"
#include "model/model_config.h"

namespace trireme {
namespace {

constexpr std::int64_t kMostLayers = 10'000;

struct KindName {
  std::string_view word;
  LayerKind kind;
};
constexpr std::array<KindName, 4> kKinds = {{{"full", {}},
                                             {"sliding", {.sliding = true}},
                                             {"full_nope", {.positions = false}},
                                             {"sliding_nope", {.sliding = true, .positions = false}}}};

std::string_view WordOf(const LayerKind& kind) {
  return std::find_if(kKinds.begin(), kKinds.end(), [&](const KindName& one) { return one.kind == kind; })->word;
}

std::string_view Trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

// "3*sliding".
void AppendKinds(std::string_view word, std::vector<LayerKind>& layers) {
  std::int64_t count = 1;
  std::string_view name = word;
  if (const std::size_t star = word.find('*'); star != std::string_view::npos) {
    const std::string_view digits = Trimmed(word.substr(0, star));
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
    Require(error == std::errc() && end == digits.data() + digits.size() && count > 0 && count <= kMostLayers,
            "model.layer_types: '{}' in '{}' is no count from 1 to {}", digits, word, kMostLayers);
    name = Trimmed(word.substr(star + 1));
  }
  const auto* const found =
      std::find_if(kKinds.begin(), kKinds.end(), [&](const KindName& one) { return one.word == name; });
  Require(found != kKinds.end(),
          "model.layer_types: '{}' is no kind of layer; known are full, sliding, full_nope and sliding_nope, as "
          "\"3*sliding, full\"",
          name);
  layers.insert(layers.end(), static_cast<std::size_t>(count), found->kind);
  Require(static_cast<std::int64_t>(layers.size()) <= kMostLayers,
          "model.layer_types is a pattern of more than {} "
          "layers",
          kMostLayers);
}

// Whole turns alone count: a pattern that ended within one would go on otherwise.
std::size_t PeriodOf(const std::vector<LayerKind>& layers) {
  for (std::size_t period = 1; period < layers.size(); ++period) {
    const auto end = layers.end() - static_cast<std::ptrdiff_t>(period);
    if (layers.size() % period == 0 &&
        std::equal(layers.begin(), end, layers.begin() + static_cast<std::ptrdiff_t>(period))) {
      return period;
    }
  }
  return layers.size();
}

}  // namespace

std::vector<LayerKind> ParseLayerTypes(const std::string& text) {
  std::vector<LayerKind> layers;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    AppendKinds(Trimmed(rest.substr(0, comma)), layers);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return layers;
}

std::string FormatLayerTypes(const std::vector<LayerKind>& layers) {
  const std::size_t period = PeriodOf(layers);
  std::string text;
  for (std::size_t first = 0; first < std::min(period, layers.size());) {
    std::size_t end = first;
    while (end < period && layers[end] == layers[first]) {
      ++end;
    }
    text += text.empty() ? "" : ", ";
    text +=
        end - first > 1 ? fmt::format("{}*{}", end - first, WordOf(layers[first])) : std::string(WordOf(layers[first]));
    first = end;
  }
  return text;
}

void CompleteLayers(ModelConfig& config) {
  config.layer_pattern = ParseLayerTypes(config.layer_types);
  const std::vector<LayerKind>& pattern = config.layer_pattern;
  if (pattern.empty()) {
    return;
  }
  config.layer_types = FormatLayerTypes(pattern);
  Require(config.window_period == 0,
          "model.layer_types = '{}' and model.window_period = {} both say which layers see all keys; leave one out",
          config.layer_types, config.window_period);
  const bool windows = std::any_of(pattern.begin(), pattern.end(), [](const LayerKind& one) { return one.sliding; });
  Require(!windows || config.window > 0,
          "model.layer_types = '{}' has sliding layers, but model.window is 0: set it to the keys that a query sees",
          config.layer_types);
  const bool all_turn = std::all_of(pattern.begin(), pattern.end(), [](const LayerKind& one) { return one.positions; });
  Require(all_turn || config.position == PositionChoice::kRotary,
          "model.layer_types = '{}' has layers without positions, which are of families with rotary positions; '{}' "
          "has others",
          config.layer_types, config.family);
}

std::map<AttentionKind, std::int64_t> AttentionKinds(const ModelConfig& config) {
  std::map<AttentionKind, std::int64_t> kinds;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    ++kinds[config.AttentionOf(layer)];
  }
  return kinds;
}

}  // namespace trireme
