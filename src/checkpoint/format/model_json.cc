#include "checkpoint/format/model_json.h"

#include <nlohmann/json.hpp>
#include <type_traits>
#include <variant>

#include "base/error.h"
#include "checkpoint/format/bounded_json.h"
#include "run/recipe_keys.h"

namespace trireme {
namespace {

constexpr const char* kAdapter = "lora";

// The field of a key: "model.layers" is "layers", "lora.rank" is "rank" of "lora".
std::string FieldOf(const RecipeKey& key) {
  return key.stored_as.empty() ? key.name.substr(key.name.rfind('.') + 1) : key.stored_as;
}

void Store(const RunConfig& config, const std::vector<RecipeKey>& keys, nlohmann::json& fields) {
  for (const RecipeKey& key : keys) {
    const RecipeValue value = GetKey(config, key);
    if (!key.may_be_empty || value != RecipeValue(std::string())) {
      std::visit([&](const auto& stored) { fields[FieldOf(key)] = stored; }, value);
    }
  }
}

// The value of a field, of the type that the key has.
RecipeValue ValueOf(const nlohmann::json& fields, const RecipeKey& key, const std::string& origin) {
  const std::string field = FieldOf(key);
  return std::visit(
      [&](const auto& known) -> RecipeValue {
        using Value = std::remove_cvref_t<decltype(known)>;
        if constexpr (std::is_same_v<Value, bool>) {
          return FlagOf(fields, field.c_str(), origin);
        } else if constexpr (std::is_same_v<Value, std::int64_t>) {
          return CountOf(fields, field.c_str(), origin);
        } else if constexpr (std::is_same_v<Value, double>) {
          return NumberOf(fields, field.c_str(), origin);
        } else {
          return TextOf(fields, field.c_str(), origin);
        }
      },
      GetKey(RunConfig{}, key));
}

// What `action` returns; its Errors name `origin`.
template <typename Action>
auto WithOrigin(const std::string& origin, const Action& action) {
  try {
    return action();
  } catch (const Error& error) {
    Fail("'{}': {}", origin, error.what());
  }
}

// Fields that a manifest lacks keep their defaults, but for those that all versions write.
void Load(const nlohmann::json& fields, const std::vector<RecipeKey>& keys, const std::string& origin,
          RunConfig& config) {
  for (const RecipeKey& key : keys) {
    if (key.in_every_manifest || fields.contains(FieldOf(key))) {
      const RecipeValue value = ValueOf(fields, key, origin);
      WithOrigin(origin, [&] { SetKey(config, key, value); });
    }
  }
}

}  // namespace

nlohmann::json ModelJson(const ModelConfig& model) {
  RunConfig config;
  config.model = model;
  nlohmann::json fields;
  Store(config, ModelKeys(), fields);
  if (model.adapter.any()) {
    Store(config, AdapterKeys(), fields[kAdapter]);
  }
  return fields;
}

ModelConfig ParseModel(const nlohmann::json& value, const std::string& origin) {
  RunConfig config;
  Load(value, ModelKeys(), origin, config);
  if (value.contains(kAdapter)) {
    Require(value[kAdapter].is_object(), "'{}': '{}' of the model is no object", origin, kAdapter);
    Load(value[kAdapter], AdapterKeys(), origin, config);
  }
  return WithOrigin(origin, [&] { return Completed(config.model, true); });
}

}  // namespace trireme
