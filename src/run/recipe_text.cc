// What a config looks like in words: TOML, a flat list, the table of keys.
#include <fmt/core.h>

#include "run/recipe_keys.h"

namespace trireme {

std::string ToToml(const RunConfig& config) {
  std::string text;
  std::string section;
  for (const RecipeKey& key : RecipeKeys()) {
    const std::size_t point = key.name.find('.');
    if (key.name.substr(0, point) != section) {
      section = key.name.substr(0, point);
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
    }
    text += fmt::format("{} = {}\n", key.name.substr(point + 1), ToToml(GetKey(config, key)));
  }
  return text;
}

std::vector<KeyValue> Flatten(const RunConfig& config) {
  std::vector<KeyValue> values;
  for (const RecipeKey& key : RecipeKeys()) {
    values.push_back({.key = key.name, .value = ToToml(GetKey(config, key))});
  }
  return values;
}

std::string DescribeKeys() {
  const RunConfig defaults;
  std::string text = fmt::format("{:<34} {:<12} {}\n", "key", "default", "meaning");
  text += fmt::format("{:<34} {:<12} {}\n", "model.preset", "",
                      "shape from models/NAME.toml; other model keys override it");
  for (const RecipeKey& key : RecipeKeys()) {
    std::string help = key.help;
    if (!key.words.empty()) {
      help += " (";
      for (const std::string& word : key.words) {
        help += (help.back() == '(' ? "" : " | ") + word;
      }
      help += ")";
    }
    const RecipeValue shown = key.default_word.empty() ? GetKey(defaults, key) : RecipeValue(key.default_word);
    text += fmt::format("{:<34} {:<12} {}\n", key.name, ToToml(shown), help);
  }
  return text;
}

}  // namespace trireme
