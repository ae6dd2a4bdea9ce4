// What attention of a layer sees, as data: a pattern of kinds that is repeated over a model's layers.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct LayerKind {
  bool sliding = false;   // a query sees a window of keys, not all of them
  bool positions = true;  // queries and keys are turned by their positions
  bool operator==(const LayerKind&) const = default;
};

// A kind with its window; 0: all keys.
struct AttentionKind {
  std::int64_t window = 0;
  bool rotary = false;
  auto operator<=>(const AttentionKind&) const = default;  // NOLINT(modernize-use-nullptr): it takes <=> for one with 0
};

// "3*sliding, full": kinds with commas between them, each perhaps with a count. Kinds are full, sliding, full_nope and
// sliding_nope; nope: without positions. An Error names model.layer_types. Empty: none.
std::vector<LayerKind> ParseLayerTypes(const std::string& text);
// The shortest pattern that these layers repeat.
std::string FormatLayerTypes(const std::vector<LayerKind>& layers);

struct ModelConfig;
// Reads model.layer_types into the config; an Error says what does not go with it.
void CompleteLayers(ModelConfig& config);

}  // namespace trireme
