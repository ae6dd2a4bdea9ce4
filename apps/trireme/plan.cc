#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "apps/trireme/command_line.h"
#include "apps/trireme/commands.h"
#include "apps/trireme/plan_page.h"
#include "apps/trireme/plan_validate.h"
#include "apps/trireme/this_machine.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/plain_text.h"
#include "base/text_file.h"
#include "checkpoint/read/weight_source.h"
#include "measure/machine.h"
#include "planner/queries/model_shape.h"
#include "planner/queries/plan_answer.h"
#include "report/pages.h"
#include "topology/settings.h"

namespace trireme {
namespace {

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  Require(file.good(), "'{}' cannot be written", path);
  std::fprintf(stderr, "wrote %s\n", path.c_str());
}

struct PlanCommand {
  std::string model, cluster, stack = "trireme", compare;
  std::string clusters_folder, stacks_folder, models_folder;
  ShapeOptions shape;
  PlanOptions options;
  std::string page;
  bool json = false, answers = false;

  std::map<std::string, std::string> given;  // options of the command line

  bool WritesPlanner() const { return !page.empty() && !answers && !PlannerPage().empty(); }

  int WriteAnswers(const PlanSubject& subject) const {
    if (!answers) {
      Print(stderr, "the page holds the answers to this question; the planner itself is not built in: " +
                        std::string(PlannerPageAbsence()) + "\n");
    }
    WriteFile(page, AnswersPageFor(subject, Versioned(), given));
    return 0;
  }

  ModelConfig ReadNamedModel() const {
    const std::vector<std::string> places = models_folder.empty() ? FoldersOf("models") : std::vector{models_folder};
    const bool known = !IsPath(model) && LookForNamedFile(places, model).has_value();
    const bool folder = !known && std::filesystem::is_directory(model);
    if (folder || model.ends_with(".json")) {
      const std::string path = folder ? model + "/config.json" : model;
      constexpr std::int64_t kLargest = 16 << 20;
      return ParseModelShape(ReadTextFile(path, kLargest, "model"), path);
    }
    if (model.ends_with(".toml")) {
      return LoadRecipe(model, {}, {.models_folder = models_folder, .read_model = trireme::ReadModel, .say = SayChoice})
          .config.model;
    }
    return LoadRecipe(NamedPath(models_folder, "models", model, "model"), {}, {.models_folder = models_folder})
        .config.model;
  }

  ModelConfig ReadModel() const {
    if (model.empty()) {
      Require((shape.layers > 0 && shape.hidden > 0 && shape.heads > 0) || options.SearchesShapes(),
              "name a model (--model) or its shape (--layers, --hidden, --heads)");
      return ModelOfShape(nullptr, shape);
    }
    const ModelConfig named = ReadNamedModel();
    return ModelOfShape(&named, shape);
  }

  // The one that is named, else this machine as it was calibrated.
  Cluster ReadCluster() const {
    if (!cluster.empty()) {
      return LoadCluster(NamedPath(clusters_folder, "clusters", cluster, "cluster"), "");
    }
    const std::optional<PredictionGround> here = CalibratedMachine("auto", stacks_folder);
    Require(here.has_value(),
            "name a cluster (--cluster), such as dgx-h100, or run `trireme calibrate` to plan for this machine");
    Print(stderr, "no --cluster given: planning for this machine, from " + here->knowledge + "\n");
    return here->cluster;
  }

  PlanOptions Versioned() const {
    PlanOptions with = options;
    with.program = ProgramVersion();
    return with;
  }

  std::vector<SoftwareStack> ReadCompared() const {
    std::vector<SoftwareStack> stacks;
    std::string left = compare.empty() ? "" : compare + ",";
    for (std::size_t comma = left.find(','); comma != std::string::npos; comma = left.find(',')) {
      stacks.push_back(LoadStack(NamedPath(stacks_folder, "stacks", left.substr(0, comma), "stack"), ""));
      left.erase(0, comma + 1);
    }
    return stacks;
  }

  int Run() const {
    if (WritesPlanner()) {
      WriteFile(page, std::string(PlannerPage()));
      return 0;
    }
    Require(page.empty() || !AnswersPage().empty(), "the planner's page is not built in: {}", PlannerPageAbsence());
    Require(page.empty() || (!cluster.empty() && (!model.empty() || shape.layers > 0)),
            "a page of answers needs --model, --cluster and --nodes{}",
            answers ? "" : fmt::format("; the planner itself is not built in: {}", PlannerPageAbsence()));
    RequireConsistent(options);
    const Cluster machine = ReadCluster();
    Require(machine.nodes == 1 || options.nodes > 0 || options.gpus > 0 || !options.phases.empty(),
            "cluster '{}' has {} nodes: give --nodes, --gpus or --phases, such as --nodes {}", machine.name,
            machine.nodes, std::min(machine.nodes, 4));
    const SoftwareStack software = LoadStack(NamedPath(stacks_folder, "stacks", stack, "stack"), "");
    const ModelConfig config = ReadModel();
    const PlanSubject subject{.cluster = machine, .stack = software, .model = config, .compared = ReadCompared()};
    if (!page.empty()) {
      return WriteAnswers(subject);
    }
    const PlanAnswer answer = AnswerPlan(subject, Versioned());
    for (const std::string& note : answer.notes) {
      Print(stderr, note + "\n");
    }
    Print(stdout, json ? JsonText(answer.json, {.indent = 2}) + "\n" : answer.text);
    for (const PlanAnswer::File& file : answer.files) {
      WriteFile(file.path, file.text);
    }
    return answer.found ? 0 : kExitFailed;
  }
};

void AddModelOptions(CLI::App* plan, PlanCommand& c) {
  plan->add_option("--model", c.model, "A file in models/, a recipe, a Hugging Face directory or config.json");
  plan->add_option("--family", c.shape.family, "A family of docs/reference/families.md, when no model is named (gpt2)");
  plan->add_option("--layers", c.shape.layers, "Blocks; this and the next ones also change a named model")
      ->check(AboveZero());
  plan->add_option("--hidden", c.shape.hidden, "Hidden size")->check(AboveZero());
  plan->add_option("--heads", c.shape.heads, "Attention heads")->check(AboveZero());
  plan->add_option("--kv-heads", c.shape.kv_heads, "Key and value heads")->check(AboveZero());
  plan->add_option("--ffn", c.shape.ffn, "Width of the feed-forward part")->check(AboveZero());
  plan->add_option("--vocabulary", c.shape.vocabulary, "Rows of the token table")->check(AboveZero());
  plan->add_option("--sequence", c.shape.sequence, "Tokens of a sample")->check(AboveZero());
  plan->add_option("--models-folder", c.models_folder, "Where model files lie");
}

void AddMachineOptions(CLI::App* plan, PlanCommand& c) {
  plan->add_option("--cluster", c.cluster,
                   "A file in clusters/, by name or path (this machine, once it is calibrated)");
  plan->add_option("--stack", c.stack, "Whose software: a file in stacks/, by name or path (trireme)");
  plan->add_option("--nodes", c.options.nodes,
                   "Nodes of the allocation (needed, or --gpus, where the cluster has several)")
      ->check(AboveZero());
  plan->add_option("--gpus", c.options.gpus, "Devices of the allocation, instead of --nodes")->check(AboveZero());
  plan->add_option("--spare-nodes", c.options.spare_nodes, "Of these, nodes held back for failures")
      ->check(NotNegative());
  plan->add_option("--phases", c.options.phases, "An allocation that changes: nodes:days,nodes:days,nodes");
  plan->add_option("--clusters-folder", c.clusters_folder, "Where cluster files lie");
  plan->add_option("--stacks-folder", c.stacks_folder, "Where stack files lie");
}

void AddPlanOptions(CLI::App* plan, PlanCommand& c) {
  plan->add_option("--global-batch", c.options.global_batch, "Samples of a step (by the size of the model)")
      ->check(AboveZero());
  plan->add_option("--tokens", c.options.tokens, "Tokens of the whole training: adds days, device-hours and energy")
      ->check(AboveZero());
  plan->add_option("--dtype", c.options.dtype, "bf16, fp16 or fp32 (bf16; fp16 on devices without bf16)");
  plan->add_option("--optimizer", c.options.optimizer,
                   "adamw, adafactor, lion, muon or sgd, for stack trireme (adamw)");
  plan->add_option("--moments", c.options.moments, "Of the optimizer: fp32 or bf16, for stack trireme (fp32)");
  plan->add_option("--attention", c.options.attention,
                   "flash, or plain: scores of all queries and keys are stored; for stack trireme (flash)");
  plan->add_option("--powersgd", c.options.power_sgd_rank,
                   "Rank of gradients compressed by PowerSGD, for stack trireme with ZeRO 0 and 1 (0: whole)");
  plan->add_option("--max-tensor", c.options.most_tensor, "Largest tensor degree (the devices of a node)")
      ->check(AboveZero());
  plan->add_option("--max-context", c.options.most_context,
                   "Largest context degree to search: ranks that divide every sequence (1)")
      ->check(AboveZero());
  plan->add_option("--max-micro-batch", c.options.most_micro_batch, "Largest micro batch (64)")->check(AboveZero());
  plan->add_option("--headroom", c.options.headroom, "Share of device memory to leave free (0.06)");
  plan->add_option(
      "--fix", c.options.fix,
      "Axes to hold, such as \"tp=4 zero=1 recompute=full\"; sp and offload_activations are true or false");
  plan->add_option("--deadline", c.options.deadline, "Days: marks layouts that miss it")->check(AboveZero());
  plan->add_option("--allocation", c.options.allocation, "Device-hours: marks layouts that exceed them")
      ->check(AboveZero());
  plan->add_option("--rows", c.options.rows, "Layouts to show (8; 15 with --json)")->check(AboveZero());
  plan->add_option("--threads", c.options.threads, "Threads of the search (2)")->check(AboveZero());
  plan->add_option("--layout", c.options.layout,
                   "Explain this one, such as \"tp=4 pp=12 dp=8 mbs=2 zero=1 recompute=full\"");
  plan->add_option("--compare", c.compare,
                   "Programs side by side, such as trireme,megatron-core-2024; with --layout that one");
  plan->add_option("--timeline", c.options.timeline, "With --layout: \"text\", or a file for a Chrome/Perfetto trace");
  plan->add_option("--sequences", c.options.sequences,
                   "With --layout: its seconds and memory by the length of samples, such as 8192,32768,131072");
  plan->add_option("--ramp", c.options.ramp, "Price a batch ramp: start,increment,samples");
  plan->add_flag("--estimate", c.options.estimate,
                 "Days and device-hours with checkpoints and restarts; needs --tokens");
  plan->add_flag("--max-size", c.options.max_size, "Find the largest model of the family that fits");
  plan->add_flag("--max-sequence", c.options.max_sequence,
                 "Find the longest samples that the model can be trained with (--max-context searches that axis too)");
  plan->add_option("--search-shape", c.options.search_shape, "Propose shapes of a size, such as 200B");
  plan->add_option("--emit", c.options.emit, "Write recipe, sbatch or both for the chosen layout");
  plan->add_flag("--full", c.options.full, "With --emit: every key in the recipe, not only those that differ");
  plan->add_option("--out", c.options.out, "Where --emit writes: this + .toml and .sbatch (planned)");
  plan->add_option("--time-limit", c.options.job.time_limit, "Of the emitted Slurm job: 20:00:00, 2-12 or minutes");
  plan->add_option("--account", c.options.job.account, "Of the emitted Slurm job");
  plan->add_option("--partition", c.options.job.partition, "Of the emitted Slurm job");
  plan->add_flag("--json", c.json, "For programs");
  plan->add_option("--page", c.page,
                   "Write the planner itself as one HTML file that works in a browser, from file:// too; other options "
                   "are chosen there. Where it is not built in, the answers to this question");
  plan->add_flag("--answers", c.answers, "With --page: the answers to this question, not the planner");
}

}  // namespace

void AddPlanCommand(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<PlanCommand>();
  CLI::App* plan = app.add_subcommand("plan", "Rank every layout of a model on a cluster by predicted speed");
  AddModelOptions(plan, *command);
  AddMachineOptions(plan, *command);
  AddPlanOptions(plan, *command);
  AddPlanValidateCommand(plan, exit_code);
  plan->footer(
      "\nExamples:\n"
      "  trireme plan --model bloom-176b --cluster jean-zay-a100 --stack megatron-ds-2022 --nodes 48 --global-batch "
      "2048\n"
      "  trireme plan --model llama-3-70b --cluster dgx-h100 --nodes 32 --global-batch 1024 --tokens 15e12 --estimate\n"
      "  trireme plan --model bloom-176b --cluster dgx-h100 --nodes 48 --global-batch 2048 --layout \"tp=8 pp=6 dp=8 "
      "mbs=1\"\n"
      "Exit codes: 0 done; 1 no layout fits; 2 the input cannot be used.");
  plan->callback([plan, command, &exit_code] {
    if (plan->get_subcommands().empty()) {
      command->given = GivenOptions(*plan);
      exit_code = command->Run();
    }
  });
}

}  // namespace trireme
