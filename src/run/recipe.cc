// Reads recipes: TOML text and --set become values of the table in recipe_keys.h.

// toml++ 3.3 asserts on some malformed keys that it then reports properly: hostile text must not end a debug build.
#define TOML_ASSERT(expression) static_cast<void>(0)
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/error.h"
#include "run/recipe_keys.h"

namespace trireme {
namespace {

constexpr std::uintmax_t kMaxRecipeBytes = 4U << 20;
constexpr const char* kPresetKey = "model.preset";
constexpr const char* kFromKey = "model.from";

// A leaf of a TOML tree, or of --set.
struct Setting {
  std::string key;
  RecipeValue value;
  std::string place;   // "run.toml line 12" or "--set layout.tensor=4": begins error messages
  std::string origin;  // "recipe line 12", "--set"
};

// "optimizer.schedule" may be given as its kind alone.
std::string Unabbreviated(const std::string& key) { return key == "optimizer.schedule" ? key + ".kind" : key; }

bool IsSection(const std::string& name) {
  const std::vector<RecipeKey>& keys = RecipeKeys();
  return std::any_of(keys.begin(), keys.end(), [&](const RecipeKey& key) { return key.name.starts_with(name + "."); });
}

// "model", "batch.ramp_up" and the like.
std::vector<std::string> Sections() {
  std::vector<std::string> sections;
  for (const RecipeKey& key : RecipeKeys()) {
    for (std::size_t dot = key.name.find('.'); dot != std::string::npos; dot = key.name.find('.', dot + 1)) {
      sections.push_back(key.name.substr(0, dot));
    }
  }
  return sections;
}

// What lies below a section, for the message about a value where a table belongs.
std::string Members(const std::string& section) {
  std::string members;
  for (const RecipeKey& key : RecipeKeys()) {
    if (key.name.starts_with(section + ".")) {
      members += (members.empty() ? "" : ", ") + key.name.substr(section.size() + 1);
    }
  }
  return members;
}

void RequireKnown(const std::string& key, const std::string& place) {
  if (key == kPresetKey || FindRecipeKey(key) != nullptr) {
    return;
  }
  if (IsSection(key)) {
    Fail("{}: {} is a table, not a value; its keys are {}", place, key, Members(key));
  }
  Fail("{}: unknown key '{}'{}", place, key, NearestKey(key));
}

// [7, 7, 6] as "7,7,6".
std::string PartitionText(const toml::array& list, const std::string& place) {
  std::string text;
  for (const toml::node& item : list) {
    const auto layers = item.value_exact<std::int64_t>();
    Require(layers.has_value(), "{}: layout.partition must list whole numbers, such as [7, 7, 6]", place);
    text += fmt::format("{}{}", text.empty() ? "" : ",", *layers);
  }
  return text;
}

// [0.3, "a.bin", 0.7, "b.bin"] as "0.3 a.bin 0.7 b.bin".
std::string BlendText(const toml::array& list, const std::string& place) {
  std::string text;
  for (std::size_t i = 0; i < list.size(); i += 2) {
    const auto weight = list[i].value<double>();
    const auto source = i + 1 < list.size() ? list[i + 1].value_exact<std::string>() : std::nullopt;
    Require(weight && source,
            "{}: data.source must list weights and sources in turn, such as [0.3, \"a.bin\", 0.7, "
            "\"b.bin\"]",
            place);
    Require(*weight > 0 && std::isfinite(*weight), "{}: data.source: the weight {} must be a number above 0", place,
            *weight);
    Require(!source->empty() && source->find_first_of(" \t\r\n") == std::string::npos,
            "{}: data.source: '{}' cannot be part of a list: the name of a source in a list has no blanks", place,
            *source);
    text += fmt::format("{}{} {}", text.empty() ? "" : " ", *weight, *source);
  }
  return text;
}

// Lists become the text that their key takes.
std::string ListText(const toml::array& list, const std::string& key, const std::string& place) {
  const bool is_partition = key == "layout.partition";
  Require(is_partition || key == "data.source", "{}: {} takes one value, not a list", place, key);
  Require(!list.empty(), "{}: {} is an empty list", place, key);
  return is_partition ? PartitionText(list, place) : BlendText(list, place);
}

RecipeValue ValueOf(const toml::node& node, const std::string& key, const std::string& place) {
  if (const auto flag = node.value_exact<bool>()) {
    return *flag;
  }
  if (const auto whole = node.value_exact<std::int64_t>()) {
    return *whole;
  }
  if (const auto real = node.value_exact<double>()) {
    return *real;
  }
  if (const auto text = node.value_exact<std::string>()) {
    return *text;
  }
  if (const toml::array* list = node.as_array()) {
    return ListText(*list, key, place);
  }
  Fail("{}: {} is a date or a time; a recipe has none", place, key);
}

// Walks a TOML tree and collects its leaves.
struct Leaves {
  std::string place;   // of the text
  std::string origin;  // likewise
  bool has_lines = true;
  std::vector<Setting> settings;

  std::string At(const std::string& text, const toml::node& node) const {
    return has_lines ? fmt::format("{} line {}", text, node.source().begin.line) : text;
  }

  void Take(const toml::node& node, const std::string& key) {
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      const std::string full = Unabbreviated(key);
      RequireKnown(full, At(place, node));
      settings.push_back({.key = full,
                          .value = ValueOf(node, full, At(place, node)),
                          .place = At(place, node),
                          .origin = At(origin, node)});
      return;
    }
    if (!key.empty() && !IsSection(key)) {
      Require(FindRecipeKey(key) == nullptr && key != kPresetKey, "{}: {} takes a value, not a table", At(place, node),
              key);
      Fail("{}: unknown table '{}'{}", At(place, node), key, NearestMatch(key, Sections()));
    }
    for (const auto& [name, child] : *table) {
      Take(child, key.empty() ? std::string(name.str()) : key + "." + std::string(name.str()));
    }
  }
};

toml::table ParseToml(const std::string& text, const std::string& place) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    Fail("{} line {}: {}", place, error.source().begin.line, error.description());
  }
}

std::string ReadText(const std::string& path, const char* what) {
  std::error_code status;
  Require(std::filesystem::exists(path, status), "{} '{}' does not exist", what, path);
  std::ifstream file(path, std::ios::binary);
  Require(!std::filesystem::is_directory(path, status), "{} '{}' is a directory; a file is wanted", what, path);
  Require(file.good(), "{} '{}' cannot be read", what, path);
  std::string text;
  for (char letter = 0; file.get(letter);) {
    text += letter;
    Require(text.size() <= kMaxRecipeBytes, "{} '{}' is larger than {} bytes", what, path, kMaxRecipeBytes);
  }
  return text;
}

Setting BareText(const std::string& key, const std::string& value, const std::string& place) {
  return {.key = Unabbreviated(key), .value = value, .place = place, .origin = "--set"};
}

bool TakesText(const std::string& name) {
  const RecipeKey* key = FindRecipeKey(name);
  return name == kPresetKey || (key != nullptr && std::holds_alternative<std::string& (*)(RunConfig&)>(key->member));
}

// TOML values as they are; anything else is text, so that the shell needs no second pair of quotes.
std::vector<Setting> ParseOverride(const std::string& text) {
  const std::string place = "--set " + text;
  const std::size_t equals = text.find('=');
  Require(equals != std::string::npos && equals > 0, "{}: should be key=value, such as layout.tensor=4", place);
  const std::string key = text.substr(0, equals);
  const std::string value = text.substr(equals + 1);
  Require(!value.empty(), "{}: the value is empty", place);
  Require(text.find_first_of("\n\r") == std::string::npos, "--set {}: the value has more than one line", key);
  toml::table tree;
  try {
    tree = toml::parse("value = " + value);
  } catch (const toml::parse_error&) {
    RequireKnown(Unabbreviated(key), place);
    return {BareText(key, value, place)};
  }
  const toml::node& node = *tree.get("value");
  if (TakesText(Unabbreviated(key)) && !node.is_string() && !node.is_array() && !node.is_table()) {
    return {BareText(key, value, place)};
  }
  Leaves leaves{.place = place, .origin = "--set", .has_lines = false, .settings = {}};
  leaves.Take(node, key);
  return leaves.settings;
}

// Where model files may lie: told, else beside the recipe's folder, the working folder, and the program.
std::vector<std::filesystem::path> ModelFolders(const std::string& models_folder, const std::string& origin) {
  if (!models_folder.empty()) {
    return {models_folder};
  }
  std::vector<std::filesystem::path> folders = {"models",
                                                std::filesystem::path(origin).parent_path() / ".." / "models"};
  std::error_code status;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", status).parent_path();
  for (const char* place : {"models", "../models", "../../models", "../share/trireme/models"}) {
    folders.push_back(program / place);
  }
  return folders;
}

std::string FindPreset(const Setting& preset, const std::string& models_folder, const std::string& origin) {
  const auto* name = std::get_if<std::string>(&preset.value);
  Require(name != nullptr && !name->empty() && name->find_first_of("/\\") == std::string::npos,
          "{}: model.preset must be the name of a model file, such as \"gpt2-124m\"", preset.place);
  std::vector<std::string> known;
  for (const std::filesystem::path& folder : ModelFolders(models_folder, origin)) {
    std::error_code status;
    if (std::filesystem::exists(folder / (*name + ".toml"), status)) {
      return (folder / (*name + ".toml")).string();
    }
    for (const auto& entry : std::filesystem::directory_iterator(folder, status)) {
      if (entry.path().extension() == ".toml") {
        known.push_back(entry.path().stem().string());
      }
    }
  }
  Require(!known.empty(), "{}: no folder of models was found for model.preset = '{}'", preset.place, *name);
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  Fail("{}: model.preset = '{}' is unknown{}; known: {}", preset.place, *name, NearestMatch(*name, known),
       fmt::join(known, ", "));
}

class Resolver {
 public:
  Resolver(std::string origin, const RecipeGround& ground) : origin_(std::move(origin)), ground_(ground) {
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

  // The ground that all other keys stand on.
  void ApplyPreset(const Setting& preset) {
    const std::string path = FindPreset(preset, ground_.models_folder, origin_);
    const std::string name = "preset " + std::get<std::string>(preset.value);
    Leaves leaves{.place = path, .origin = name, .settings = {}};
    leaves.Take(ParseToml(ReadText(path, "model file"), path), "");
    for (Setting& setting : leaves.settings) {
      Require(setting.key.starts_with("model.") && setting.key != kPresetKey,
              "{}: a model file has [model] keys only, not {}", setting.place, setting.key);
      setting.origin = name;
      Apply(setting);
    }
  }

  // Likewise, from the files of a model.
  void ApplyFrom(const Setting& from, const Setting* preset) {
    Require(preset == nullptr, "{}: model.from and model.preset both say the shape of the model; keep one", from.place);
    const auto* path = std::get_if<std::string>(&from.value);
    Require(path != nullptr, "{}: model.from must be the path of a Hugging Face directory, a checkpoint or a run",
            from.place);
    if (!ground_.read_model) {
      return;
    }
    try {
      source_ = ground_.read_model(*path);
    } catch (const Error& error) {
      Fail("{}: model.from: {}", from.place, error.what());
    }
    recipe_.config.model = *source_;
    for (const RecipeKey& key : RecipeKeys()) {
      if (key.name.starts_with("model.")) {
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
    for (const char* name : {"model.family", "model.layers", "model.hidden", "model.heads", "model.kv_heads",
                             "model.ffn", "model.vocabulary", "model.tie_embeddings"}) {
      const RecipeKey& key = *FindRecipeKey(name);
      const std::string wanted = ToToml(GetKey(config, key));
      const std::string there = ToToml(GetKey(source, key));
      Require(wanted == there, "{}: {} = {} ({}), but the model of model.from = '{}' has {}; leave the key out",
              origin_, name, wanted, recipe_.origins[name], config.model_from, there);
    }
    Require(config.model.position != PositionChoice::kLearned || config.model.sequence <= source_->sequence,
            "{}: model.sequence = {} is more than the {} positions that the model of model.from = '{}' has learned",
            origin_, config.model.sequence, source_->sequence, config.model_from);
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
    note(recipe_.origins["model.tie_embeddings"] == "default", "model.tie_embeddings");
    ChooseRecompute();
  }

  // Norms and activations made again cost a block of width 768 2 % of its time and one of 2048 1 %, and save a quarter
  // of the memory or more (measured on a GPU in bf16).
  void ChooseRecompute() {
    constexpr std::int64_t kWide = 2048;
    RunConfig& config = recipe_.config;
    std::string& origin = recipe_.origins["layout.recompute"];
    if (origin == "default" && config.train.dtype == "bf16" && config.model.hidden >= kWide) {
      config.layout.recompute = Recompute::kLight;
      origin = fmt::format("default of bf16 from model.hidden = {} on", kWide);
    }
  }

  std::string origin_;
  const RecipeGround& ground_;
  std::optional<ModelConfig> source_;  // what model.from names
  Recipe recipe_;
};

}  // namespace

Recipe LoadRecipe(const std::string& path, const std::vector<std::string>& overrides, const RecipeGround& ground) {
  return ParseRecipe(ReadText(path, "recipe"), path, overrides, ground);
}

Recipe ParseRecipe(const std::string& text, const std::string& origin, const std::vector<std::string>& overrides,
                   const RecipeGround& ground) {
  Leaves leaves{.place = origin, .origin = "recipe", .settings = {}};
  leaves.Take(ParseToml(text, origin), "");
  std::vector<Setting> set;
  for (const std::string& one : overrides) {
    for (Setting& setting : ParseOverride(one)) {
      set.push_back(std::move(setting));
    }
  }
  return Resolver(origin, ground).Resolve(leaves.settings, set);
}

}  // namespace trireme
