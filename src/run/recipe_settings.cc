#include "run/recipe_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <variant>

#include "base/error.h"
#include "run/users_words.h"
#include "topology/toml_text.h"

namespace trireme {
namespace {

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

// Run folders and checkpoints keep the keys of the version that wrote them. layout.reduce_bf16 is now a word of
// layout.reduce.
constexpr const char* kEarlierReduce = "layout.reduce_bf16";

Setting InTodaysKeys(Setting setting) {
  if (const bool* flag = std::get_if<bool>(&setting.value); flag != nullptr && setting.key == kEarlierReduce) {
    setting.value = std::string(*flag ? "bf16" : "exact");
    setting.key = "layout.reduce";
  }
  return setting;
}

// Walks a TOML tree and collects its leaves.
struct Leaves {
  std::string place;   // of the text
  std::string origin;  // likewise
  bool has_lines = true;
  std::vector<Setting> settings;

  std::string Located(const std::string& text, const toml::node& node) const {
    return has_lines ? fmt::format("{} line {}", text, node.source().begin.line) : text;
  }

  void Take(const toml::node& node, const std::string& key) {
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      const std::string full = Unabbreviated(key);
      const std::string where = Located(place, node);
      if (full != kEarlierReduce) {
        RequireKnown(full, where);
      }
      settings.push_back(InTodaysKeys(
          {.key = full, .value = ValueOf(node, full, where), .place = where, .origin = Located(origin, node)}));
      RequireKnown(settings.back().key, where);
      return;
    }
    if (!key.empty() && !IsSection(key)) {
      Require(FindRecipeKey(key) == nullptr && key != kPresetKey, "{}: {} takes a value, not a table",
              Located(place, node), key);
      const std::string meant = TableOfUsersWord(key);
      Fail("{}: unknown table '{}'{}", Located(place, node), key,
           meant.empty() ? NearestMatch(key, Sections()) : fmt::format(" (did you mean '{}'?)", meant));
    }
    for (const auto& [name, child] : *table) {
      Take(child, key.empty() ? std::string(name.str()) : key + "." + std::string(name.str()));
    }
  }
};

toml::table TablesOf(const std::string& text, const std::string& place) {
  try {
    return ParseToml(text);
  } catch (const TomlFault& fault) {
    Fail("{} line {}: {}", place, fault.line, fault.what());
  }
}

Setting BareText(const std::string& key, const std::string& value, const std::string& place) {
  return {.key = Unabbreviated(key), .value = value, .place = place, .origin = "--set"};
}

bool TakesText(const std::string& name) {
  const RecipeKey* key = FindRecipeKey(name);
  return name == kPresetKey || (key != nullptr && std::holds_alternative<std::string& (*)(RunConfig&)>(key->member));
}

}  // namespace

std::vector<Setting> SettingsOfText(const std::string& text, const std::string& place, const std::string& origin) {
  Leaves leaves{.place = place, .origin = origin, .settings = {}};
  leaves.Take(TablesOf(text, place), "");
  return leaves.settings;
}

std::vector<Setting> SettingsOfOverride(const std::string& text) {
  const std::string place = "--set " + text;
  const std::size_t equals = text.find('=');
  Require(equals != std::string::npos && equals > 0, "{}: should be key=value, such as layout.tensor=4", place);
  const std::string key = text.substr(0, equals);
  const std::string value = text.substr(equals + 1);
  Require(!value.empty(), "{}: the value is empty", place);
  Require(text.find_first_of("\n\r") == std::string::npos, "--set {}: the value has more than one line", key);
  toml::table tree;
  try {
    tree = ParseToml("value = " + value);
  } catch (const TomlFault&) {
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

}  // namespace trireme
