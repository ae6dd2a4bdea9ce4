// The files that recipes are read from.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/text_file.h"
#include "run/recipe_settings.h"

namespace trireme {
namespace {

constexpr std::int64_t kMaxRecipeBytes = 4 << 20;

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

}  // namespace

ModelFile ReadPreset(const Setting& preset, const std::string& models_folder, const std::string& origin) {
  const std::string path = FindPreset(preset, models_folder, origin);
  return {.path = path, .text = ReadTextFile(path, kMaxRecipeBytes, "model file")};
}

Recipe LoadRecipe(const std::string& path, const std::vector<std::string>& overrides, const RecipeGround& ground) {
  return ParseRecipe(ReadTextFile(path, kMaxRecipeBytes, "recipe"), path, overrides, ground);
}

}  // namespace trireme
