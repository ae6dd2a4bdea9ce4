#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "apps/trireme/command_line.h"
#include "apps/trireme/commands.h"
#include "apps/trireme/plan_validate.h"
#include "apps/trireme/this_machine.h"
#include "base/error.h"
#include "checkpoint/read/weight_source.h"
#include "planner/compare.h"
#include "planner/deadline.h"
#include "planner/emit.h"
#include "planner/explain.h"
#include "planner/layout_space.h"
#include "planner/model_shape.h"
#include "planner/phases.h"
#include "planner/plan_json.h"
#include "planner/plan_text.h"
#include "planner/ramp.h"
#include "planner/shapes.h"
#include "planner/timeline.h"
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
  std::string model, family = "gpt2", cluster, stack = "trireme", dtype = "bf16", moments = "fp32", optimizer = "adamw";
  std::string clusters_folder, stacks_folder, models_folder;
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, ffn = 0, vocabulary = 0, sequence = 0;
  int nodes = 0, gpus = 0, spare_nodes = 0, most_tensor = 0, most_micro_batch = 64, rows = 15, threads = 2;
  std::int64_t global_batch = 0;  // 0: chosen once the model is known
  double tokens = 0, headroom = 0.06, deadline = 0, allocation = 0;
  std::string fix, layout, timeline, ramp, search_shape, emit, out = "planned", phases, compare;
  JobOptions job;
  bool max_size = false, estimate = false, json = false;

  ModelConfig ReadModel() const {
    ModelConfig config;
    const bool folder = std::filesystem::is_directory(model);
    if (folder || model.ends_with(".json")) {
      const std::string path = folder ? model + "/config.json" : model;
      std::ifstream file(path, std::ios::binary);
      Require(file.good(), "'{}' cannot be read", path);
      config = ParseModelShape({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}, path);
    } else if (model.ends_with(".toml")) {
      config = LoadRecipe(model, {}, {.models_folder = models_folder, .read_model = trireme::ReadModel}).config.model;
    } else if (!model.empty()) {
      const std::string files = DataFolder(models_folder, "models");
      config = LoadRecipe(FindSettingsFile(files, model, "model"), {}, {.models_folder = files}).config.model;
    } else {
      Require((layers > 0 && hidden > 0 && heads > 0) || SearchesShapes(),
              "name a model (--model) or its shape (--layers, --hidden, --heads)");
      config.family = family;
      config.vocabulary = 50'304;
      config.sequence = 2048;
    }
    const auto take = [](std::int64_t given, std::int64_t& field) { field = given > 0 ? given : field; };
    // A new width has its family's feed-forward, new heads have keys of their own, unless these are told too.
    config.ffn = hidden > 0 ? 0 : config.ffn;
    config.kv_heads = heads > 0 ? 0 : config.kv_heads;
    take(layers, config.layers);
    take(hidden, config.hidden);
    take(heads, config.heads);
    take(kv_heads, config.kv_heads);
    take(ffn, config.ffn);
    take(vocabulary, config.vocabulary);
    take(sequence, config.sequence);
    return Completed(config, !model.empty());
  }

  void Hold(SearchRequest& request) const {
    const ParallelLayout unset{.tensor = 0,
                               .pipeline = 0,
                               .data = 0,
                               .zero = -1,
                               .schedule = "",
                               .chunks = 0,
                               .partition = "",
                               .micro_batch = 0};
    const ParallelLayout held = ParseLayout(fix, unset);
    const auto hold = [](int value, int none, std::optional<int>& axis) {
      if (value != none) {
        axis = value;
      }
    };
    hold(held.tensor, 0, request.tensor);
    hold(held.pipeline, 0, request.pipeline);
    hold(held.data, 0, request.data);
    hold(held.zero, -1, request.zero);
    hold(held.chunks, 0, request.chunks);
    hold(held.micro_batch, 0, request.micro_batch);
    if (!held.schedule.empty()) {
      request.schedule = held.schedule;
    }
    if (!held.partition.empty()) {
      request.partition = held.partition;
    }
    // Given either way, these are held.
    const auto given = [&](const std::string& word) { return ParseLayoutWords(fix).count(word) != 0; };
    if (given("recompute")) {
      request.recompute = Name(held.recompute);
    }
    if (given("offload")) {
      request.offload = Name(held.offload);
    }
    if (given("sp")) {
      request.sequence_parallel = held.sequence_parallel;
    }
  }

  BatchConfig ReadRamp() const {
    BatchConfig batch{.global = global_batch};
    if (!ramp.empty()) {
      int read = 0;
      Require(std::sscanf(ramp.c_str(), "%ld,%ld,%ld%n", &batch.ramp_start, &batch.ramp_increment, &batch.ramp_samples,
                          &read) == 3 &&
                  static_cast<std::size_t>(read) == ramp.size(),
              "--ramp '{}' must be start,increment,samples, such as 192,16,9765625", ramp);
      RequireRamp(batch);
    }
    return batch;
  }

  // The one that is named, else this machine as it was calibrated.
  Cluster ReadCluster() const {
    if (!cluster.empty()) {
      return LoadCluster(cluster, DataFolder(clusters_folder, "clusters"));
    }
    const std::optional<PredictionGround> here = CalibratedMachine("auto", stacks_folder);
    Require(here.has_value(),
            "name a cluster (--cluster), such as dgx-h100, or run `trireme calibrate` to plan for this machine");
    std::fprintf(stderr, "no --cluster given: planning for this machine, from %s\n", here->knowledge.c_str());
    return here->cluster;
  }

  // A shape is what is looked for: of the model only family, vocabulary and sequence count.
  bool SearchesShapes() const { return max_size || !search_shape.empty(); }

  // Mistakes in what comes after the search are told before it.
  void CheckOptions() const {
    Require(!estimate || tokens > 0, "--estimate needs --tokens");
    Require(deadline == 0 || tokens > 0, "--deadline needs --tokens");
    Require(allocation == 0 || tokens > 0, "--allocation needs --tokens");
    Require(timeline.empty() || !layout.empty(), "--timeline needs --layout");
    Require(!max_size || search_shape.empty(), "--max-size and --search-shape {}: give one of them", search_shape);
    Require(nodes == 0 || gpus == 0, "--nodes {} and --gpus {}: give one of them", nodes, gpus);
    const DType element = ParseDType(dtype);
    Require(element == DType::kBFloat16 || element == DType::kFloat16 || element == DType::kFloat32,
            "--dtype {}: models train in bf16, fp16 or fp32", dtype);
    static const std::vector<std::string> kOptimizers = {"adamw", "adafactor", "lion", "muon", "sgd"};
    Require(std::find(kOptimizers.begin(), kOptimizers.end(), optimizer) != kOptimizers.end(),
            "--optimizer {}: training offers adamw, adafactor, lion, muon and sgd", optimizer);
    Require(moments == "fp32" || moments == "bf16", "--moments {}: optimizers keep them in fp32 or bf16", moments);
    std::string left = emit + ",";
    for (std::size_t comma = left.find(','); !emit.empty() && comma != std::string::npos; comma = left.find(',')) {
      const std::string word = left.substr(0, comma);
      Require(word == "recipe" || word == "sbatch", "--emit '{}' must be recipe, sbatch or recipe,sbatch", emit);
      left.erase(0, comma + 1);
    }
  }

  // A layout that the program cannot run: why, and the fastest that it can.
  int Refused(const SearchRequest& request, const std::string& reason) const {
    const SearchResult result = Search(request);
    const std::string instead = result.ranked.empty() ? "" : result.ranked.front().layout.ToString();
    PrintText(fmt::format("refused: {}\n", reason));
    if (!instead.empty()) {
      PrintText(fmt::format("fastest that '{}' can run here: {}, {:.2f} s a step\n", request.stack.name, instead,
                            result.ranked.front().seconds));
    }
    if (json) {
      Print({{"refused", reason}, {"instead", instead}});
    }
    return kExitFailed;
  }

  // Programs side by side.
  int Comparing(const SearchRequest& request) const {
    std::vector<SoftwareStack> stacks;
    std::string left = compare + ",";
    for (std::size_t comma = left.find(','); comma != std::string::npos; comma = left.find(',')) {
      stacks.push_back(LoadStack(left.substr(0, comma), DataFolder(stacks_folder, "stacks")));
      left.erase(0, comma + 1);
    }
    std::optional<ParallelLayout> wanted;
    if (!layout.empty()) {
      wanted = ParseLayoutOf(request.model, layout);
    }
    const std::vector<Compared> compared = Compare(request, stacks, wanted);
    json ? Print(ToJsonValue(compared)) : PrintText(ToText(compared));
    const bool any = std::any_of(compared.begin(), compared.end(), [](const Compared& one) { return !!one.best; });
    return any ? 0 : kExitFailed;
  }

  int Explaining(const SearchRequest& request) const {
    const ParallelLayout wanted = ParseLayoutOf(request.model, layout);
    if (const std::string reason = StackRefusal(request.stack, wanted); !reason.empty()) {
      return Refused(request, reason);
    }
    const Explanation explanation = Explain(request, wanted);
    const std::int64_t micro_batches = global_batch / (static_cast<std::int64_t>(wanted.micro_batch) * wanted.data);
    if (!json) {
      std::fputs(ToText(explanation, request).c_str(), stdout);
    }
    if (timeline == "text" && !json) {
      std::fputs(("\n" + TimelineText(wanted, explanation.estimate, micro_batches)).c_str(), stdout);
    } else if (timeline != "text" && !timeline.empty()) {
      WriteFile(timeline, TimelineTrace(wanted, explanation.estimate, micro_batches));
    }
    nlohmann::json more = Finish(request, explanation.candidate);
    if (json) {
      more.update(nlohmann::json::parse(ToJson(explanation, request)));
      Print(more);
    }
    return 0;
  }

  static void Print(const nlohmann::json& value) { std::fputs((value.dump(2) + "\n").c_str(), stdout); }
  void PrintText(const std::string& text) const {
    if (!json) {
      std::fputs(text.c_str(), stdout);
    }
  }

  // What follows once a layout is chosen: the ramp, the whole training, files. The returned object holds the same.
  nlohmann::json Finish(const SearchRequest& request, const Candidate& chosen) const {
    nlohmann::json told = nlohmann::json::object();
    const BatchConfig batch = ReadRamp();
    RampPlan plan;
    if (batch.ramp_start > 0) {
      plan = PriceRamp(request, batch, chosen.layout);
      PrintText("\n" + ToText(plan));
      told["ramp"] = ToJsonValue(plan);
    }
    // Where no end is given, a long run: the best interval of checkpoints does not depend on it.
    const double samples = tokens > 0 ? tokens / static_cast<double>(request.model.sequence) : 1e6 * global_batch;
    const TrainingTime time =
        EstimateTraining({.cluster = request.cluster,
                          .devices = request.devices,
                          .spare_nodes = spare_nodes,
                          .checkpoint_bytes = 12 * static_cast<double>(ParameterCount(request.model))},
                         StretchesOf(plan, chosen, batch, samples));
    const int every = std::max(1, static_cast<int>(time.checkpoint_interval / chosen.seconds));
    if (estimate) {
      PrintText(fmt::format(
          "\n{:.1f} days ({:.1f} of steps alone), {:.0f} device-hours, {:.1f} failures expected, {:.1f} % lost; a "
          "checkpoint every {} steps ({:.0f} s, each stops training for {:.1f} s){}\n",
          time.days, time.busy_days, time.device_hours, time.failures, 100 * time.lost_share, every,
          time.checkpoint_interval, time.checkpoint_seconds,
          time.megawatt_hours > 0 ? fmt::format("; {:.0f} MWh", time.megawatt_hours) : ""));
      told["estimate"] = ToJsonValue(time);
    }
    if (emit.empty()) {
      return told;
    }
    const EmitRequest emitted{.search = request,
                              .layout = chosen.layout,
                              .tokens = tokens,
                              .batch = batch,
                              .checkpoint_every = every,
                              .spare_nodes = spare_nodes,
                              .name = std::filesystem::path(out).filename().string(),
                              .job = job};
    // Both are made before either is written.
    const bool scripted = emit.find("sbatch") != std::string::npos;
    const std::string script = scripted ? EmitSbatch(emitted, out + ".toml") : "";
    if (emit.find("recipe") != std::string::npos) {
      WriteFile(out + ".toml", EmitRecipe(emitted));
    }
    if (scripted) {
      WriteFile(out + ".sbatch", script);
    }
    return told;
  }

  // What is usual for a model of this size, where no batch was given; and says so.
  void ChooseBatch(const ModelConfig& config, int devices) {
    if (global_batch > 0) {
      return;
    }
    Require(!max_size, "--max-size needs --global-batch: the usual batch depends on the size that is looked for");
    const double parameters =
        search_shape.empty() ? static_cast<double>(ParameterCount(config)) : ParseSize(search_shape);
    global_batch = UsualBatch(parameters, config.sequence, devices);
    std::fprintf(stderr, "no --global-batch given: taking %lld samples of %lld tokens, usual for %.3g B parameters\n",
                 static_cast<long long>(global_batch), static_cast<long long>(config.sequence), parameters / 1e9);
  }

  int Run() {
    CheckOptions();
    const Cluster machine = ReadCluster();
    if (!emit.empty()) {
      RequireEmittable(machine, out, job);
    }
    const SoftwareStack software = LoadStack(stack, DataFolder(stacks_folder, "stacks"));
    Require(optimizer == "adamw" || software.ours,
            "--optimizer {}: of stack '{}' only memory and time with adamw are known; --stack trireme has all five",
            optimizer, software.name);
    Require(moments == "fp32" || software.ours,
            "--moments {}: of stack '{}' only memory and time with fp32 moments are known; --stack trireme has both",
            moments, software.name);
    const StackState state = Resolve(software, machine, "");
    const ModelConfig config = ReadModel();
    const int devices = gpus > 0 ? gpus : (nodes > 0 ? nodes : machine.nodes) * machine.devices_per_node;
    Require(spare_nodes * machine.devices_per_node < devices, "{} spare nodes leave nothing of {} devices", spare_nodes,
            devices);
    ChooseBatch(config, devices - spare_nodes * machine.devices_per_node);
    ReadRamp();
    SearchRequest request{.cluster = machine,
                          .stack = software,
                          .state = state,
                          .model = config,
                          .devices = devices - spare_nodes * machine.devices_per_node,
                          .global_batch = global_batch,
                          .dtype = ParseDType(dtype),
                          .moments = ParseDType(moments),
                          .optimizer = optimizer,
                          .most_tensor = most_tensor,
                          .most_micro_batch = most_micro_batch,
                          .headroom = headroom,
                          .keep = std::max(rows, 1),
                          .threads = threads};
    Hold(request);
    const BatchConfig batch = ReadRamp();
    request.ramp_unit = std::gcd(batch.ramp_start, batch.ramp_increment);
    if (!compare.empty()) {
      return Comparing(request);
    }
    if (!layout.empty()) {
      return Explaining(request);
    }
    const auto show = [&](const auto& answer, const std::string& text) {
      json ? Print(ToJsonValue(answer)) : PrintText(text);
      return 0;
    };
    if (SearchesShapes()) {
      const std::vector<ShapeProposal> shapes = max_size ? std::vector<ShapeProposal>{LargestModel(request)}
                                                         : SearchShapes(request, ParseSize(search_shape), rows);
      return show(shapes, ToText(shapes));
    }
    if (!phases.empty()) {
      const std::vector<PhasePlan> plans = PlanPhases(request, ParsePhases(phases), tokens);
      return show(plans, ToText(plans, tokens));
    }
    return Ranking(request);
  }

  int Ranking(const SearchRequest& request) const {
    const SearchResult result = Search(request);
    const RankingOptions options{.tokens = tokens, .deadline_days = deadline, .device_hours = allocation, .rows = rows};
    PrintText(RankingText(result, request, options));
    nlohmann::json told = json ? RankingJson(result, request, options) : nlohmann::json::object();
    if (!result.ranked.empty()) {
      if (deadline > 0 && TimeOfTraining(request, result.ranked.front(), tokens).days > deadline) {
        const DeadlineAnswer answer = NodesForDeadline(request, tokens, deadline);
        PrintText("\n" + ToText(answer, request, deadline));
        told["deadline"] = ToJsonValue(answer);
      }
      told.update(Finish(request, result.ranked.front()));
    }
    if (json) {
      Print(told);
    }
    return result.ranked.empty() ? kExitFailed : 0;
  }
};

void AddModelOptions(CLI::App* plan, PlanCommand& c) {
  plan->add_option("--model", c.model, "A file in models/, a recipe, a Hugging Face directory or config.json");
  plan->add_option("--family", c.family, "A family of docs/families.md, when no model is named (gpt2)");
  plan->add_option("--layers", c.layers, "Blocks; this and the next ones also change a named model")
      ->check(AboveZero());
  plan->add_option("--hidden", c.hidden, "Hidden size")->check(AboveZero());
  plan->add_option("--heads", c.heads, "Attention heads")->check(AboveZero());
  plan->add_option("--kv-heads", c.kv_heads, "Key and value heads")->check(AboveZero());
  plan->add_option("--ffn", c.ffn, "Width of the feed-forward part")->check(AboveZero());
  plan->add_option("--vocabulary", c.vocabulary, "Rows of the token table")->check(AboveZero());
  plan->add_option("--sequence", c.sequence, "Tokens of a sample")->check(AboveZero());
  plan->add_option("--models-folder", c.models_folder, "Where model files lie");
}

void AddMachineOptions(CLI::App* plan, PlanCommand& c) {
  plan->add_option("--cluster", c.cluster,
                   "A file in clusters/, by name or path (this machine, once it is calibrated)");
  plan->add_option("--stack", c.stack, "Whose software: a file in stacks/, by name or path (trireme)");
  plan->add_option("--nodes", c.nodes, "Nodes of the allocation (all)")->check(AboveZero());
  plan->add_option("--gpus", c.gpus, "Devices of the allocation, instead of --nodes")->check(AboveZero());
  plan->add_option("--spare-nodes", c.spare_nodes, "Of these, nodes held back for failures")->check(NotNegative());
  plan->add_option("--phases", c.phases, "An allocation that changes: nodes:days,nodes:days,nodes");
  plan->add_option("--clusters-folder", c.clusters_folder, "Where cluster files lie");
  plan->add_option("--stacks-folder", c.stacks_folder, "Where stack files lie");
}

void AddPlanOptions(CLI::App* plan, PlanCommand& c) {
  plan->add_option("--global-batch", c.global_batch, "Samples of a step (by the size of the model)")
      ->check(AboveZero());
  plan->add_option("--tokens", c.tokens, "Tokens of the whole training: adds days, device-hours and energy")
      ->check(AboveZero());
  plan->add_option("--dtype", c.dtype, "bf16, fp16 or fp32 (bf16)");
  plan->add_option("--optimizer", c.optimizer, "adamw, adafactor, lion, muon or sgd, for stack trireme (adamw)");
  plan->add_option("--moments", c.moments, "Of the optimizer: fp32 or bf16, for stack trireme (fp32)");
  plan->add_option("--max-tensor", c.most_tensor, "Largest tensor degree (the devices of a node)")->check(AboveZero());
  plan->add_option("--max-micro-batch", c.most_micro_batch, "Largest micro batch (64)")->check(AboveZero());
  plan->add_option("--headroom", c.headroom, "Share of device memory to leave free (0.06)");
  plan->add_option("--fix", c.fix, "Axes to hold, such as \"tp=4 zero=1 recompute=full\"");
  plan->add_option("--deadline", c.deadline, "Days: marks layouts that miss it")->check(AboveZero());
  plan->add_option("--allocation", c.allocation, "Device-hours: marks layouts that exceed them")->check(AboveZero());
  plan->add_option("--rows", c.rows, "Layouts to show (15)")->check(AboveZero());
  plan->add_option("--threads", c.threads, "Threads of the search (2)")->check(AboveZero());
  plan->add_option("--layout", c.layout, "Explain this one, such as \"tp=4 pp=12 dp=8 mbs=2 zero=1 recompute=full\"");
  plan->add_option("--compare", c.compare,
                   "Programs side by side, such as trireme,megatron-core-2024; with --layout that one");
  plan->add_option("--timeline", c.timeline, "With --layout: \"text\", or a file for a Chrome/Perfetto trace");
  plan->add_option("--ramp", c.ramp, "Price a batch ramp: start,increment,samples");
  plan->add_flag("--estimate", c.estimate, "Days and device-hours with checkpoints and restarts; needs --tokens");
  plan->add_flag("--max-size", c.max_size, "Find the largest model of the family that fits");
  plan->add_option("--search-shape", c.search_shape, "Propose shapes of a size, such as 200B");
  plan->add_option("--emit", c.emit, "Write recipe, sbatch or both for the chosen layout");
  plan->add_option("--out", c.out, "Where --emit writes: this + .toml and .sbatch (planned)");
  plan->add_option("--time-limit", c.job.time_limit, "Of the emitted Slurm job: 20:00:00, 2-12 or minutes");
  plan->add_option("--account", c.job.account, "Of the emitted Slurm job");
  plan->add_option("--partition", c.job.partition, "Of the emitted Slurm job");
  plan->add_flag("--json", c.json, "For programs");
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
      exit_code = command->Run();
    }
  });
}

}  // namespace trireme
