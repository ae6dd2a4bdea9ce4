#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>

#include "apps/trireme/command_line.h"
#include "apps/trireme/commands.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/plain_text.h"
#include "checkpoint/gguf/gguf.h"
#include "checkpoint/hugging_face/hugging_face.h"
#include "checkpoint/read/weight_source.h"
#include "checkpoint/tools/reports.h"
#include "infer/compare_logits.h"

namespace trireme {
namespace {

constexpr const char* kPathHelp = "A checkpoint's folder, a run's folder (its newest), or a run's checkpoints/";

struct CheckpointCommand {
  std::string path;
  std::string other;
  bool json = false;
  ConvertOptions convert;
  ExportOptions exported;
  double shard_gigabytes = 50;
  std::string format = "huggingface";
  GgufOptions gguf;
  bool check = false;
  bool mend = false;
  bool merge = false;
  bool adapter = false;
  double tolerance = 1e-4;

  int Print(const Report& report) const {
    trireme::Print(stdout, json ? report.json + "\n" : report.text);
    return report.status;
  }
};

// Adds what a comparison of the two sides found, and exit code 1 where they differ.
void AddLogitCheck(const std::string& path, const std::string& exported, double tolerance, Report& report) {
  constexpr std::int64_t kTokens = 64;
  const LogitComparison found = CompareLogits(path, exported, kTokens, 1);
  const bool same = found.largest_difference <= tolerance * found.largest_logit;
  report.status = same ? 0 : 1;
  report.text +=
      fmt::format("logits of {} drawn tokens: largest difference {:.3g}, largest logit {:.3g}: {}\n", found.tokens,
                  found.largest_difference, found.largest_logit, same ? "the same" : "they differ");
  nlohmann::json root = ParseJson(report.json);
  root["check"] = {{"tokens", found.tokens},
                   {"largest_difference", found.largest_difference},
                   {"largest_logit", found.largest_logit},
                   {"same", same}};
  report.json = JsonText(root, {.indent = 1});
}

using Answer = std::function<Report(const CheckpointCommand&)>;

// Adds a subcommand with what all of them have; more options may be added to the result.
struct Subcommand {
  const char* name;
  const char* description;
  const char* example;
  Answer action;
};

CLI::App* Add(CLI::App& parent, const std::shared_ptr<CheckpointCommand>& command, int& exit_code,
              const Subcommand& subcommand) {
  CLI::App* app = parent.add_subcommand(subcommand.name, subcommand.description);
  app->add_flag("--json", command->json, "One JSON object");
  app->footer(std::string("\nExample:\n  ") + subcommand.example);
  const Answer action = subcommand.action;
  app->callback([command, action, &exit_code] { exit_code = command->Print(action(*command)); });
  return app;
}

Report Export(const CheckpointCommand& own) {
  Require(own.format == "huggingface" || own.format == "gguf", "--format '{}' is unknown: huggingface or gguf",
          own.format);
  if (own.adapter) {
    Require(own.format == "huggingface" && !own.check,
            "--adapter writes what PEFT reads, without a base: neither --format gguf nor --check go with it; --merge "
            "does");
    return ExportAdapter(own.path, own.other);
  }
  if (own.format == "gguf") {
    Require(!own.check, "--check compares the logits of a Hugging Face directory; llama.cpp runs a GGUF file");
    GgufOptions gguf = own.gguf;
    gguf.merge = own.merge;
    return ExportGguf(own.path, own.other, gguf);
  }
  ExportOptions options = own.exported;
  options.merge = own.merge;
  Require(own.shard_gigabytes > 0 && own.shard_gigabytes < 1e9, "--shard-gigabytes {} must be above 0",
          own.shard_gigabytes);
  options.shard_bytes = static_cast<std::int64_t>(own.shard_gigabytes * 1e9);
  Report report = ExportHuggingFace(own.path, own.other, options);
  if (own.check) {
    AddLogitCheck(own.path, own.other, own.tolerance, report);
  }
  return report;
}

Report Verify(const CheckpointCommand& own) {
  Report report = VerifyCheckpoint(own.path, own.mend);
  if (!own.other.empty()) {
    const Recipe recipe = LoadRecipe(RecipePath(own.other), {}, {.read_model = ReadModel});
    AddDroppedState(own.path, own.other, recipe.config, report);
  }
  return report;
}

void AddExport(CLI::App& parent, const std::shared_ptr<CheckpointCommand>& command, int& exit_code) {
  CLI::App* app = Add(parent, command, exit_code,
                      {"export", "Write a Hugging Face directory (config.json and safetensors) or a GGUF file",
                       "trireme checkpoint export runs/quickstart exported --dtype bf16\n"
                       "  trireme checkpoint export runs/quickstart model.gguf --format gguf --type q8_0\n"
                       "  trireme checkpoint export runs/tuned merged --merge",
                       Export});
  app->add_option("path", command->path, kPathHelp)->required();
  app->add_option("to", command->other, "Directory, or GGUF file, to make; it must not exist")->required();
  app->add_option("--format", command->format, "huggingface, or gguf for llama.cpp (huggingface)");
  CLI::Option* type = app->add_option("--type", command->gguf.type, "Of a GGUF file: f32, f16, bf16 or q8_0 (f16)");
  app->add_option("--tokenizer", command->gguf.tokenizer,
                  "Of a GGUF file: a tokenizer's file or directory, or 'bytes'; found with the model when not given");
  app->add_option("--dtype", command->exported.dtype, "Of a Hugging Face directory: fp32 or bf16 (fp32)")
      ->excludes(type);
  app->add_option("--shard-gigabytes", command->shard_gigabytes, "Largest file (50)");
  CLI::Option* merge = app->add_flag("--merge", command->merge, "Add LoRA adapters to the weights that they adapt");
  app->add_flag("--adapter", command->adapter,
                "Write LoRA adapters alone, as PEFT reads them: adapter_model.safetensors and adapter_config.json")
      ->excludes(merge);
  app->add_flag("--check", command->check,
                "Compare the logits of both sides on drawn tokens; exit code 1 beyond --tolerance");
  app->add_option("--tolerance", command->tolerance,
                  "Largest difference of a logit, of the largest logit (0.0001; 0.05 suits bf16)");
}

}  // namespace

void AddCheckpointCommand(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<CheckpointCommand>();
  CLI::App* checkpoint = app.add_subcommand("checkpoint", "Look into checkpoints, check, compare and convert them");
  checkpoint->require_subcommand(1);
  checkpoint->footer(
      "\nExample:\n  trireme checkpoint verify runs/quickstart\n\n"
      "Exit codes: 0 as it should be; 1 damaged or different; 2 unusable input, nothing written.");

  CLI::App* inspect = Add(*checkpoint, command, exit_code,
                          {"inspect", "Run state, and every tensor with shape and digest",
                           "trireme checkpoint inspect runs/quickstart --json",
                           [](const CheckpointCommand& own) { return InspectCheckpoint(own.path); }});
  inspect->add_option("path", command->path, kPathHelp)->required();

  CLI::App* verify = Add(*checkpoint, command, exit_code,
                         {"verify", "Check every byte; of a run, every checkpoint. Exit code 1 names file and offset",
                          "trireme checkpoint verify runs/quickstart\n"
                          "  trireme checkpoint verify runs/quickstart recipes/quickstart.toml",
                          Verify});
  verify->add_option("path", command->path, kPathHelp)->required();
  verify->add_flag("--mend", command->mend,
                   "Make the index of tensors anew where it is damaged, or missing as in earlier versions");
  verify->add_option("recipe", command->other,
                     "Also say what of the newest checkpoint's state a resume with this recipe drops; exit code 1 when "
                     "anything is");

  CLI::App* diff =
      Add(*checkpoint, command, exit_code,
          {"diff",
           "What differs between two checkpoints, or two dumps of weights, tensor by tensor. Exit code 1 when anything "
           "does",
           "trireme checkpoint diff runs/a runs/b\n"
           "  trireme checkpoint diff runs/a/dump/step-000005-after-rank-0.safetensors "
           "runs/a/dump/step-000006-before-rank-0.safetensors",
           [](const CheckpointCommand& own) { return DiffCheckpoints(own.path, own.other); }});
  diff->add_option("a", command->path, kPathHelp)->required();
  diff->add_option("b", command->other, "The other one")->required();

  CLI::App* convert = Add(*checkpoint, command, exit_code,
                          {"convert", "Write a checkpoint again, cut over a number of shards",
                           "trireme checkpoint convert runs/quickstart runs/small/checkpoints --weights-only",
                           [](const CheckpointCommand& own) {
                             Require(own.convert.shards >= 1, "--shards {} must be 1 or more", own.convert.shards);
                             return ConvertCheckpoint(own.path, own.other, own.convert);
                           }});
  convert->add_option("path", command->path, kPathHelp)->required();
  convert->add_option("to", command->other, "Folder of checkpoints to write into")->required();
  convert->add_option("--shards", command->convert.shards, "Files to cut it into (1)");
  convert->add_flag("--weights-only", command->convert.weights_only, "Without optimizer state: starts a run at step 0");

  AddExport(*checkpoint, command, exit_code);

  CLI::App* import =
      Add(*checkpoint, command, exit_code,
          {"import", "Read a Hugging Face directory (docs/reference/families.md) as a checkpoint of step 0",
           "trireme checkpoint import downloads/gpt2 runs/mine/checkpoints",
           [](const CheckpointCommand& own) { return ImportHuggingFace(own.path, own.other); }});
  import->add_option("directory", command->path, "Hugging Face directory")->required();
  import->add_option("to", command->other, "Folder of checkpoints to write into")->required();
}

}  // namespace trireme
