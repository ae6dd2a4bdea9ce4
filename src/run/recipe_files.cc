// The files that recipes are read from.
#include <filesystem>

#include "base/error.h"
#include "base/text_file.h"
#include "run/recipe_settings.h"
#include "topology/settings.h"

namespace trireme {
namespace {

constexpr std::int64_t kMaxRecipeBytes = 4 << 20;

// Folders of model files: `models_folder` if given; else those of the program, next to the recipe's folder, and here.
std::vector<std::string> ModelFolders(const std::string& models_folder, const std::string& origin) {
  if (!models_folder.empty()) {
    return {models_folder};
  }
  std::vector<std::string> folders = FoldersOf("models");
  folders.insert(folders.end() - 1, (std::filesystem::path(origin).parent_path() / ".." / "models").string());
  return folders;
}

}  // namespace

ModelFile ReadPreset(const Setting& preset, const std::string& models_folder, const std::string& origin) {
  const auto* name = std::get_if<std::string>(&preset.value);
  Require(name != nullptr && !name->empty(),
          "{}: model.preset must be the name of a model file, such as \"gpt2-124m\", or a path", preset.place);
  try {
    const NamedFile file = FindNamedFile(ModelFolders(models_folder, origin), *name, "model.preset =");
    return {.path = file.path, .text = ReadTextFile(file.path, kMaxRecipeBytes, "model file"), .choice = file.Choice()};
  } catch (const Error& error) {
    Fail("{}: {}", preset.place, error.what());
  }
}

Recipe LoadRecipe(const std::string& path, const std::vector<std::string>& overrides, const RecipeContext& context) {
  return ParseRecipe(ReadTextFile(path, kMaxRecipeBytes, "recipe"), path, overrides, context);
}

}  // namespace trireme
