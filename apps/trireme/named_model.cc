#include "apps/trireme/named_model.h"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "apps/trireme/command_line.h"
#include "apps/trireme/plan_validate.h"
#include "base/text_file.h"
#include "checkpoint/read/weight_source.h"
#include "planner/queries/model_shape.h"
#include "topology/settings.h"

namespace trireme {

void AddModelOptions(CLI::App& app, std::string& model, ShapeOptions& shape, std::string& models_folder) {
  app.add_option("--model", model, "A file in models/, a recipe, a Hugging Face directory or config.json");
  app.add_option("--family", shape.family, "A family of docs/families.md, when no model is named (gpt2)");
  app.add_option("--layers", shape.layers, "Blocks; this and the next ones also change a named model")
      ->check(AboveZero());
  app.add_option("--hidden", shape.hidden, "Hidden size")->check(AboveZero());
  app.add_option("--heads", shape.heads, "Attention heads")->check(AboveZero());
  app.add_option("--kv-heads", shape.kv_heads, "Key and value heads")->check(AboveZero());
  app.add_option("--ffn", shape.ffn, "Width of the feed-forward part")->check(AboveZero());
  app.add_option("--vocabulary", shape.vocabulary, "Rows of the token table")->check(AboveZero());
  app.add_option("--sequence", shape.sequence, "Tokens of a sample")->check(AboveZero());
  app.add_option("--models-folder", models_folder, "Where model files lie");
}

ModelConfig ReadNamedModel(const std::string& model, const std::string& models_folder) {
  const std::vector<std::string> places = models_folder.empty() ? FoldersOf("models") : std::vector{models_folder};
  const bool known = !IsPath(model) && LookForNamedFile(places, model).has_value();
  const bool folder = !known && std::filesystem::is_directory(model);
  if (folder || model.ends_with(".json")) {
    const std::string path = folder ? model + "/config.json" : model;
    constexpr std::int64_t kLargest = 16 << 20;
    return ParseModelShape(ReadTextFile(path, kLargest, "model"), path);
  }
  if (model.ends_with(".toml")) {
    return LoadRecipe(model, {}, {.models_folder = models_folder, .read_model = ReadModel, .say = SayChoice})
        .config.model;
  }
  return LoadRecipe(NamedPath(models_folder, "models", model, "model"), {}, {.models_folder = models_folder})
      .config.model;
}

}  // namespace trireme
