// The keys of a recipe: one table that the reader, --set, --dry-run, run.toml and the documentation share. A row binds
// a name to a member of RunConfig, with the values that make sense for it.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "run/run_config.h"

namespace trireme {

// The largest batch.global: sums over its samples stay exact.
inline constexpr std::int64_t kMostGlobalBatch = 1 << 24;

// A value as TOML or --set spelled it.
using RecipeValue = std::variant<bool, std::int64_t, double, std::string>;

// A member that is an enumeration with words (base/words.h).
struct WordMember {
  std::string (*get)(RunConfig&);
  void (*set)(RunConfig&, const std::string& word);
};

// A member of RunConfig, by its type.
using RecipeMember = std::variant<bool& (*)(RunConfig&), int& (*)(RunConfig&), std::int64_t& (*)(RunConfig&),
                                  double& (*)(RunConfig&), std::string& (*)(RunConfig&), WordMember>;

// Whether a key decides how long a step takes: measured seconds serve runs in which all such keys are equal.
enum class TimeEffect : std::uint8_t { kNone, kAlways, kInFloat8 };

struct RecipeKey {
  std::string name;  // "layout.tensor"
  std::string help;
  RecipeMember member;
  // Bounds of numbers.
  double least = std::numeric_limits<double>::lowest();
  double most = std::numeric_limits<double>::max();
  // Values that a text may have; empty: any.
  std::vector<std::string> words;
  bool may_be_empty = false;
  // Shown as the default instead of a value: what decides it later.
  std::string default_word = {};
  TimeEffect time = TimeEffect::kNone;
  // For keys of the model: training that starts from other weights may change it; all others are the weights' shape.
  bool may_change = false;
  // For fields of a checkpoint's manifest: the name, where it is not the key's last part, and whether manifests
  // of every version have it.
  std::string stored_as = {};
  bool in_every_manifest = false;
};

// The origin of layout.recompute when it is "auto": the config has none, until memory is known (train/memory_room.h).
inline constexpr const char* kRecomputeAutomatic = "auto: at the start the least that fits the device";

const std::vector<RecipeKey>& RecipeKeys();
// Those of [model] that say what the model is, and those of [lora].
std::vector<RecipeKey> ModelKeys();
std::vector<RecipeKey> AdapterKeys();
// nullptr when there is none.
const RecipeKey* FindRecipeKey(const std::string& name);
// " (did you mean 'layout.tensor'?)", or "": for messages about unknown keys.
std::string NearestKey(const std::string& name);

// Converts and stores; an Error names the key, the value, and what would work.
void SetKey(RunConfig& config, const RecipeKey& key, const RecipeValue& value);
RecipeValue GetKey(const RunConfig& config, const RecipeKey& key);
// Checks the stored value against the row's range or words.
void RequireSensible(const RunConfig& config, const RecipeKey& key);
// As TOML writes it.
std::string ToToml(const RecipeValue& value);

}  // namespace trireme
