// Reads recipes: TOML text and --set become values of the table in recipe_keys.h.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "run/recipe_settings.h"

namespace trireme {
namespace {

constexpr const char* kFromKey = "model.from";

class Resolver {
 public:
  Resolver(std::string origin, const RecipeContext& context) : origin_(std::move(origin)), context_(context) {
    for (const RecipeKey& key : RecipeKeys()) {
      recipe_.origins[key.name] = "default";
    }
  }

  Recipe Resolve(const std::vector<Setting>& written, const std::vector<Setting>& overrides) {
    const Setting* preset = Last(written, overrides, kPresetKey);
    const Setting* from = Last(written, overrides, kFromKey);
    if (from != nullptr) {
      ApplyFrom(*from, preset);
    } else if (preset != nullptr) {
      ApplyPreset(*preset);
    }
    for (const Setting& setting : written) {
      Apply(setting);
    }
    ForgetOtherLengths(overrides);
    for (const Setting& setting : overrides) {
      Apply(setting);
    }
    Complete();
    RequireSameShape();
    return std::move(recipe_);
  }

 private:
  void Apply(const Setting& setting) {
    if (setting.key == kPresetKey) {
      return;
    }
    const RecipeKey* key = FindRecipeKey(setting.key);
    if (!key->default_word.empty() && setting.value == RecipeValue(key->default_word)) {
      SetKey(recipe_.config, *key, GetKey(RunConfig{}, *key));
      recipe_.origins[setting.key] = "default";
      return;
    }
    try {
      SetKey(recipe_.config, *key, setting.value);
    } catch (const Error& error) {
      Fail("{}: {}", setting.place, error.what());
    }
    recipe_.origins[setting.key] = setting.origin;
  }

  static const Setting* Last(const std::vector<Setting>& written, const std::vector<Setting>& overrides,
                             const char* key) {
    const Setting* last = nullptr;
    for (const auto* settings : {&written, &overrides}) {
      for (const Setting& setting : *settings) {
        last = setting.key == key ? &setting : last;
      }
    }
    return last != nullptr && last->value == RecipeValue(std::string()) ? nullptr : last;
  }

  // The preset, which all other keys change.
  void ApplyPreset(const Setting& preset) {
    const ModelFile file = ReadPreset(preset, context_.models_folder, origin_);
    if (context_.say && !file.choice.empty()) {
      context_.say(fmt::format("{}: {}", preset.place, file.choice));
    }
    const std::string name = "preset " + std::get<std::string>(preset.value);
    for (Setting& setting : SettingsOfText(file.text, file.path, name)) {
      Require(setting.key.starts_with("model.") && setting.key != kPresetKey,
              "{}: a model file has [model] keys only, not {}", setting.place, setting.key);
      setting.origin = name;
      Apply(setting);
    }
  }

  // Applies the files of a model.
  void ApplyFrom(const Setting& from, const Setting* preset) {
    Require(preset == nullptr, "{}: model.from and model.preset both say the shape of the model; keep one", from.place);
    const auto* path = std::get_if<std::string>(&from.value);
    Require(path != nullptr, "{}: model.from must be the path of a Hugging Face directory, a checkpoint or a run",
            from.place);
    if (!context_.read_model) {
      return;
    }
    try {
      source_ = context_.read_model(*path);
    } catch (const Error& error) {
      Fail("{}: model.from: {}", from.place, error.what());
    }
    recipe_.config.model = *source_;
    for (const RecipeKey& key : RecipeKeys()) {
      if (key.name.starts_with("model.") || (key.name.starts_with("lora.") && source_->adapter.any())) {
        recipe_.origins[key.name] = kFromKey;
      }
    }
  }

  // Keys given beside model.from may not change what its weights mean.
  void RequireSameShape() {
    if (!source_) {
      return;
    }
    RunConfig source;
    source.model = *source_;
    const RunConfig& config = recipe_.config;
    for (const RecipeKey& key : ModelKeys()) {
      if (!key.may_change) {
        RequireSameKey(source, key);
      }
    }
    if (source_->adapter.any()) {
      for (const RecipeKey& key : AdapterKeys()) {
        RequireSameKey(source, key);
      }
    }
    Require(config.model.position != PositionChoice::kLearned || config.model.sequence <= source_->sequence,
            "{}: model.sequence = {} is more than the {} positions that the model of model.from = '{}' has learned",
            origin_, config.model.sequence, source_->sequence, config.model_from);
  }

  void RequireSameKey(const RunConfig& source, const RecipeKey& key) {
    const std::string wanted = ToToml(GetKey(recipe_.config, key));
    const std::string there = ToToml(GetKey(source, key));
    Require(wanted == there, "{}: {} = {} ({}), but the model of model.from = '{}' has {}; leave the key out", origin_,
            key.name, wanted, recipe_.origins[key.name], recipe_.config.model_from, there);
  }

  // --set train.steps=10 shortens a run that the recipe measures in tokens.
  void ForgetOtherLengths(const std::vector<Setting>& overrides) {
    const bool sets_length = std::any_of(overrides.begin(), overrides.end(), [](const Setting& setting) {
      return setting.key == "train.steps" || setting.key == "train.samples" || setting.key == "train.tokens";
    });
    if (sets_length) {
      recipe_.config.train.samples = 0;
      recipe_.config.train.tokens = 0;
      recipe_.origins["train.samples"] = recipe_.origins["train.tokens"] = "default";
    }
  }

  void Complete() {
    ModelConfig& model = recipe_.config.model;
    const ModelConfig given = model;
    try {
      model = Completed(model, recipe_.origins["model.tie_embeddings"] != "default");
    } catch (const Error& error) {
      Fail("{}: {}", origin_, error.what());
    }
    const auto note = [&](bool changed, const char* key) {
      if (changed) {
        recipe_.origins[key] = "family " + model.family;
      }
    };
    note(model.kv_heads != given.kv_heads, "model.kv_heads");
    note(model.ffn != given.ffn, "model.ffn");
    note(model.rotary_fraction != given.rotary_fraction, "model.rotary_fraction");
    note(model.window_period != given.window_period, "model.window_period");
    note(model.layer_types != given.layer_types, "model.layer_types");
    note(model.local_rope_theta != given.local_rope_theta, "model.local_rope_theta");
    note(recipe_.origins["model.tie_embeddings"] == "default", "model.tie_embeddings");
    std::string& recompute = recipe_.origins["layout.recompute"];
    recompute = recompute == "default" ? kRecomputeAutomatic : recompute;
  }

  std::string origin_;
  const RecipeContext& context_;
  std::optional<ModelConfig> source_;  // what model.from names
  Recipe recipe_;
};

}  // namespace

Recipe ParseRecipe(const std::string& text, const std::string& origin, const std::vector<std::string>& overrides,
                   const RecipeContext& context) {
  const std::vector<Setting> written = SettingsOfText(text, origin, "recipe");
  std::vector<Setting> set;
  for (const std::string& one : overrides) {
    for (Setting& setting : SettingsOfOverride(one)) {
      set.push_back(std::move(setting));
    }
  }
  return Resolver(origin, context).Resolve(written, set);
}

}  // namespace trireme
