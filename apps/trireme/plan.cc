#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "apps/trireme/command_line.h"
#include "apps/trireme/commands.h"
#include "apps/trireme/named_model.h"
#include "apps/trireme/plan_cases.h"
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
  PlanCases cases;
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

  ModelConfig ReadModel() const {
    if (model.empty()) {
      Require((shape.layers > 0 && shape.hidden > 0 && shape.heads > 0) || options.SearchesShapes(),
              "name a model (--model) or its shape (--layers, --hidden, --heads)");
      return ModelOfShape(nullptr, shape);
    }
    const ModelConfig named = ReadNamedModel(model, models_folder);
    return ModelOfShape(&named, shape);
  }

  // The one that is named, else this machine as it was calibrated.
  Cluster ReadCluster() const {
    if (!cluster.empty()) {
      return LoadCluster(NamedPath(clusters_folder, "clusters", cluster, "cluster"), "");
    }
    const std::optional<PredictionContext> here = CalibratedMachine("auto", stacks_folder);
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

  // One case of a table.
  RunRow AnswerCase(const CaseQuestion& question) const {
    PlanCommand one = *this;
    one.model = question.model;
    one.cluster = question.cluster;
    one.stack = question.stack;
    one.shape = question.shape;
    one.options = question.options;
    RequireConsistent(one.options);
    const Cluster machine = one.ReadCluster();
    one.RequireAllocation(machine);
    const SoftwareStack software = LoadStack(NamedPath(stacks_folder, "stacks", one.stack, "stack"), "");
    const ModelConfig config = one.ReadModel();
    return PlanCase({.cluster = machine, .stack = software, .model = config, .compared = {}}, one.options);
  }

  int AnswerCases(const CLI::App& plan) const {
    Require(compare.empty() && page.empty(),
            "{} is of one question: for a table vary the setting stack, or write --plot FILE.html",
            page.empty() ? "--compare" : "--page");
    PlanCases table = cases;
    table.format = json ? "json" : cases.format;
    const auto is_given = [&](const std::string& name) {
      std::string option = name;
      std::replace(option.begin(), option.end(), '_', '-');
      const CLI::Option* known = plan.get_option_no_throw("--" + (option == "batch" ? "global-batch" : option));
      return known != nullptr && known->count() > 0;
    };
    return RunCases(table, {.model = model, .cluster = cluster, .stack = stack, .shape = shape, .options = options},
                    is_given, [this](const CaseQuestion& question) { return AnswerCase(question); });
  }

  void RequireAllocation(const Cluster& machine) const {
    Require(machine.nodes == 1 || options.nodes > 0 || options.gpus > 0 || !options.phases.empty(),
            "cluster '{}' has {} nodes: give --nodes, --gpus or --phases, such as --nodes {}", machine.name,
            machine.nodes, std::min(machine.nodes, 4));
  }

  int Run() const {
    if (WritesPlanner()) {
      WriteFile(page, PageOpenedAt(PlannerPage(), given));
      if (const std::string left = LeftOutOfPage(given); !left.empty()) {
        Print(stderr, "the page opens at this question without " + left + ", which it has no field for\n");
      }
      return 0;
    }
    Require(page.empty() || !AnswersPage().empty(), "the planner's page is not built in: {}", PlannerPageAbsence());
    Require(page.empty() || (!cluster.empty() && (!model.empty() || shape.layers > 0)),
            "a page of answers needs --model, --cluster and --nodes{}",
            answers ? "" : fmt::format("; the planner itself is not built in: {}", PlannerPageAbsence()));
    RequireConsistent(options);
    for (const char* const name : {"plot", "measured", "format", "price", "relative-to"}) {
      Require(!given.contains(name),
              "--{} is of a table of cases: give --grid or --cases, such as --grid \"nodes=1,2,4\"", name);
    }
    const Cluster machine = ReadCluster();
    RequireAllocation(machine);
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
                   "adamw, adafactor, lion, muon or sgd, the last three for stack trireme; torch-adam: separate "
                   "kernels, of others (adamw)");
  plan->add_option("--moments", c.options.moments, "Of the optimizer: fp32 or bf16, for stack trireme (fp32)");
  plan->add_option("--attention", c.options.attention,
                   "flash, or plain: scores of all queries and keys are stored (auto: what the program has)");
  plan->add_option("--accumulate", c.options.accumulate,
                   "Gradients of fp16 micro batches of another program: fp32 or working (auto: what it does)");
  plan->add_flag("--at-most", c.options.at_most,
                 "Leave nodes idle where that is faster: tries every smaller number of nodes too");
  plan->add_flag("--launch-blocking", c.options.launch_blocking,
                 "Price a host that waits for every kernel, as under CUDA_LAUNCH_BLOCKING=1");
  plan->add_option("--powersgd", c.options.power_sgd_rank,
                   "Rank of gradients compressed by PowerSGD, with ZeRO 0 and 1 (0: whole)");
  plan->add_option("--max-tensor", c.options.most_tensor, "Largest tensor degree (the devices of a node)")
      ->check(AboveZero());
  plan->add_option("--max-context", c.options.most_context,
                   "Largest context degree to search: ranks that divide every sequence (1)")
      ->check(AboveZero());
  plan->add_option("--max-micro-batch", c.options.most_micro_batch,
                   "Largest micro batch (64; 8 where many models are searched)")
      ->check(AboveZero());
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
                   "Explain this one; keys that are not named take the best values, such as \"tp=4 pp=12 dp=8 mbs=2 "
                   "zero=1 recompute=full\"");
  plan->add_flag("--layout-defaults", c.options.layout_defaults,
                 "With --layout: keys that are not named have their defaults instead of the best values");
  plan->add_option("--compare", c.compare,
                   "Programs side by side, such as trireme,megatron-core-2024; with --layout that one");
  plan->add_option("--timeline", c.options.timeline, "With --layout: \"text\", or a file for a Chrome/Perfetto trace");
  plan->add_option("--sequences", c.options.sequences,
                   "With --layout: its seconds and memory by the length of samples, such as 8192,32768,131072");
  plan->add_option("--ramp", c.options.ramp, "Price a batch ramp: start,increment,samples");
  plan->add_flag(
      "--node-schedule", c.options.node_schedule,
      "With --ramp: for each batch the best nodes, up to --nodes, micro batch and layout; --emit writes them "
      "as train.stages and a chain of Slurm jobs");
  plan->add_flag("--estimate", c.options.estimate,
                 "Days and device-hours with checkpoints and restarts; needs --tokens");
  plan->add_flag("--max-size", c.options.max_size, "Find the largest model of the family that fits");
  plan->add_flag("--max-sequence", c.options.max_sequence,
                 "Find the longest samples that the model can be trained with (--max-context searches that axis too)");
  plan->add_option("--search-shape", c.options.search_shape, "Propose shapes of a size, such as 200B");
  plan->add_option("--criteria", c.options.criteria,
                   "With --search-shape: \"ratio=90..180 heads=64,128 stages=12+embedding vocabulary=1024\": hidden / "
                   "layers, head sizes, stages that divide the layers (embedding and head counted), padding");
  plan->add_option("--emit", c.options.emit, "Write recipe, sbatch or both for the chosen layout");
  plan->add_flag("--full", c.options.full, "With --emit: every key in the recipe, not only those that differ");
  plan->add_option("--out", c.options.out, "Where --emit writes: this + .toml and .sbatch (planned)");
  plan->add_option("--time-limit", c.options.job.time_limit, "Of the emitted Slurm job: 20:00:00, 2-12 or minutes");
  plan->add_option("--account", c.options.job.account, "Of the emitted Slurm job");
  plan->add_option("--partition", c.options.job.partition, "Of the emitted Slurm job");
  plan->add_option("--constraint", c.options.job.constraint, "Of the emitted Slurm job: features of nodes, v100-32g");
  plan->add_option("--cpus-per-task", c.options.job.cpus_per_task, "Of the emitted Slurm job")->check(AboveZero());
  plan->add_option("--hint", c.options.job.hint, "Of the emitted Slurm job: nomultithread, say");
  plan->add_option("--reservation", c.options.job.reservation, "Of the emitted Slurm job");
  plan->add_option("--qos", c.options.job.qos, "Of the emitted Slurm job");
  plan->add_flag("--json", c.json, "For programs");
  plan->add_option("--page", c.page,
                   "Write the planner itself as one HTML file that works in a browser, from file:// too, and opens at "
                   "this question. Where it is not built in, the answers to this question");
  plan->add_flag("--answers", c.answers, "With --page: the answers to this question, not the planner");
}

}  // namespace

void AddPlanCommand(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<PlanCommand>();
  CLI::App* plan = app.add_subcommand("plan", "Rank every layout of a model on a cluster by predicted speed");
  AddModelOptions(*plan, command->model, command->shape, command->models_folder);
  AddMachineOptions(plan, *command);
  AddPlanOptions(plan, *command);
  AddCaseOptions(*plan, command->cases);
  AddPlanValidateCommand(plan, exit_code);
  plan->footer(
      "\nExamples:\n"
      "  trireme plan --model bloom-176b --cluster jean-zay-a100 --stack megatron-ds-2022 --nodes 48 --global-batch "
      "2048\n"
      "  trireme plan --model llama-3-70b --cluster dgx-h100 --nodes 32 --global-batch 1024 --tokens 15e12 --estimate\n"
      "  trireme plan --model bloom-176b --cluster dgx-h100 --nodes 48 --global-batch 2048 --layout \"tp=8 pp=6 dp=8 "
      "mbs=1\"\n"
      "  trireme plan --model gpt-1.3b --cluster jean-zay-v100-32g --stack megatron-lm-2021 --global-batch 512 --grid "
      "\"nodes=1,2,4,8; mbs=1,2\" --plot days.svg\n"
      "Exit codes: 0 done; 1 no layout fits; 2 the input cannot be used.");
  plan->callback([plan, command, &exit_code] {
    if (plan->get_subcommands().empty()) {
      command->given = GivenOptions(*plan);
      exit_code = command->cases.asked() ? command->AnswerCases(*plan) : command->Run();
    }
  });
}

}  // namespace trireme
