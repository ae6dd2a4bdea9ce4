#include "planner/queries/formula.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "apps/trireme/command_line.h"
#include "apps/trireme/commands.h"
#include "apps/trireme/named_model.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/plain_text.h"

namespace trireme {
namespace {

struct FormulaCommand {
  std::string model, models_folder;
  ShapeOptions shape;
  FormulaQuestion question;
  std::string recompute = "full";
  bool json = false;

  int Run() const {
    FormulaQuestion asked = question;
    asked.recomputation = recompute == "full";
    if (!model.empty()) {
      const ModelConfig named = ReadNamedModel(model, models_folder);
      asked.model = ModelOfShape(&named, shape);
    } else if (shape.layers > 0 || shape.hidden > 0) {
      Require(shape.layers > 0 && shape.hidden > 0 && shape.heads > 0,
              "a shape needs --layers, --hidden and --heads; or name a model with --model");
      asked.model = ModelOfShape(nullptr, shape);
    }
    const FormulaAnswer answer = AnswerFormula(asked);
    Print(stdout, json ? JsonText(answer.json, {.indent = 2}) + "\n" : answer.text);
    return 0;
  }
};

constexpr const char* kFormulaExamples = R"(
Examples:
  trireme formula --model gpt-1.3b --gpus 16 --global-batch 512 --seconds 29
  trireme formula --parameters 176B --tokens 350B --gpus 384 --tflops 150
  trireme formula --layers 80 --hidden 12288 --heads 96 --tensor 8

The formulas are those of docs/reference/notes.md: 8 (6 without recomputation) x parameters x tokens, Megatron's, and what the model needs.)";

}  // namespace

void AddFormulaCommand(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<FormulaCommand>();
  CLI::App* formula = app.add_subcommand(
      "formula",
      "Work out by hand's formulas: parameters, bytes of a layer, TFLOPs of a measured step, days at a rate");
  FormulaQuestion& question = command->question;
  AddModelOptions(*formula, command->model, command->shape, command->models_folder);
  formula->add_option("--parameters", question.parameters, "Parameters, instead of a model: 176B")->check(AboveZero());
  formula->add_option("--gpus", question.devices, "Devices")->check(AboveZero());
  formula->add_option("--global-batch", question.global_batch, "Samples of the measured step")->check(AboveZero());
  formula->add_option("--seconds", question.seconds, "Of a measured step: gives TFLOPs by three formulas")
      ->check(AboveZero());
  formula->add_option("--tflops", question.tflops, "TFLOP/s of a device, for --tokens (those of the measured step)")
      ->check(AboveZero());
  formula->add_option("--tokens", question.tokens, "Of a training: gives device-hours, and days with --gpus")
      ->check(AboveZero());
  formula->add_option("--recompute", command->recompute, "full or none: 4x or 3x the forward pass (full)")
      ->check(CLI::IsMember({"full", "none"}));
  formula->add_option("--tensor", question.tensor, "Devices that share a layer and the embedding (1)")
      ->check(AboveZero());
  formula->add_option("--data", question.data, "Replicas that share the optimizer's state, as ZeRO 1 does (1)")
      ->check(AboveZero());
  formula->add_option("--price", question.price, "Of a device-hour")->check(AboveZero());
  formula->add_flag("--json", command->json, "For programs");
  formula->footer(kFormulaExamples);
  formula->callback([command, &exit_code] { exit_code = command->Run(); });
}

}  // namespace trireme
