// What a recipe's text or --set says, before it means anything: keys, values and where they were written.
#pragma once

#include <string>
#include <vector>

#include "run/recipe_keys.h"

namespace trireme {

// A shape from models/: no key of the table, but it may be written like one.
inline constexpr const char* kPresetKey = "model.preset";

// A leaf of a TOML tree, or of --set. Its key is in the table, or kPresetKey.
struct Setting {
  std::string key;
  RecipeValue value;
  std::string place;   // "run.toml line 12" or "--set layout.tensor=4": begins error messages
  std::string origin;  // "recipe line 12", "--set"
};

// Settings of TOML text. `place` and `origin` are completed by the line of each setting. Unknown keys are an Error that
// names the nearest one.
std::vector<Setting> SettingsOfText(const std::string& text, const std::string& place, const std::string& origin);
// Settings of --set key=value. Values are TOML's, or text, so that the shell needs no second pair of quotes.
std::vector<Setting> SettingsOfOverride(const std::string& text);

struct ModelFile {
  std::string path;
  std::string text;
  std::string choice;  // NamedFile::Choice
};
// The file that model.preset names: a path, or a name of `models_folder` or, where that is empty, of the program's
// models/, then the models/ next to the folder of `origin`, then the working folder's.
ModelFile ReadPreset(const Setting& preset, const std::string& models_folder, const std::string& origin);

}  // namespace trireme
