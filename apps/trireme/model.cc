#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/trireme/commands.h"
#include "apps/trireme/plan_validate.h"
#include "base/error.h"
#include "base/json_text.h"
#include "checkpoint/read/weight_source.h"
#include "planner/queries/model_listing.h"

namespace trireme {
namespace {

struct ModelCommand {
  std::string name, models_folder;
  std::vector<std::string> overrides;
  bool json = false;

  // A run folder's run.toml, a recipe's path, or a model file by name.
  std::string Path() const {
    if (std::filesystem::is_directory(name)) {
      Require(std::filesystem::exists(name + "/run.toml"), "'{}' is no run folder: it has no run.toml", name);
      return name + "/run.toml";
    }
    if (name.ends_with(".toml") || name.find('/') != std::string::npos) {
      return name;
    }
    return NamedPath(models_folder, "models", name, "model");
  }

  int Run() const {
    const RunConfig config =
        LoadRecipe(Path(), overrides, {.models_folder = models_folder, .read_model = ReadModel}).config;
    Validate(config, 0);
    const ModelListing listing = ListModel(config);
    const std::string text =
        json ? JsonText(ToJsonValue(listing, config), {.indent = 2}) + "\n" : ToText(listing, config);
    std::fputs(text.c_str(), stdout);
    return 0;
  }
};

}  // namespace

void AddModelCommand(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<ModelCommand>();
  CLI::App* model =
      app.add_subcommand("model", "Print what a model's modules do under a layout, step by step, with FLOPs and bytes");
  model->add_option("name", command->name, "A file in models/, a recipe, or a run folder")->required();
  model->add_option("--set", command->overrides, "Override a key: layout.tensor=4")->take_all()->expected(1);
  model->add_flag("--json", command->json, "As JSON, with every number whole");
  model->add_option("--models-folder", command->models_folder, "Where model files lie");
  model->footer(R"(
Every step is listed with what it reads -> what it writes (+= what it adds to), its FLOPs and the bytes of its operands
for one micro batch on one rank, and the bytes it sends to tensor and context ranks.

Examples:
  trireme model gpt2-124m
  trireme model llama-3-8b --set layout.tensor=2 --set layout.sequence_parallel=true --set train.dtype=bf16
  trireme model gpt2-124m --set layout.recompute=full --json)");
  model->callback([command, &exit_code] { exit_code = command->Run(); });
}

}  // namespace trireme
