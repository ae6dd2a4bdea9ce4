#include "planner/queries/plan_options.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "base/error.h"
#include "run/recipe_keys.h"

namespace trireme {
namespace {

struct OptionUse {
  const char* name;
  bool given;
  std::vector<PlanQuery> queries;  // that read it
};

// All options that some query has no use for. Those of the run and of the layouts that are searched count everywhere.
std::vector<OptionUse> UsesOf(const PlanOptions& o) {
  using enum PlanQuery;
  const std::vector<PlanQuery> one_run = {kRank, kLayout};
  const std::vector<PlanQuery> allocated = {kRank,   kLayout,      kCompare,      kMaxSize,
                                            kShapes, kMaxSequence, kNodeSchedule, kCase};
  return {
      {"--rows", o.rows > 0, {kRank, kShapes}},
      {"--criteria", !o.criteria.empty(), {kShapes}},
      {"--deadline", o.deadline > 0, {kRank}},
      {"--allocation", o.allocation > 0, {kRank}},
      {"--estimate", o.estimate, one_run},
      {"--emit", !o.emit.empty(), {kRank, kLayout, kNodeSchedule}},
      {"--fix", !o.fix.empty(), {kRank, kCompare, kPhases, kMaxSize, kShapes, kMaxSequence, kNodeSchedule, kCase}},
      {"--layout", !o.layout.empty(), {kLayout, kCompare, kCase}},
      {"--at-most", o.at_most, {kRank, kLayout, kMaxSize, kShapes, kMaxSequence, kCase}},
      {"--layout-defaults", o.layout_defaults, {kLayout, kCompare, kCase}},
      {"--timeline", !o.timeline.empty(), {kLayout}},
      {"--sequences", !o.sequences.empty(), {kLayout}},
      {"--phases", !o.phases.empty(), {kPhases}},
      {"--nodes", o.nodes > 0, allocated},
      {"--gpus", o.gpus > 0, allocated},
      {"--spare-nodes", o.spare_nodes > 0, allocated},
  };
}

const char* NameOf(PlanQuery query) {
  switch (query) {
    case PlanQuery::kRank:
      return "a ranking";
    case PlanQuery::kLayout:
      return "--layout";
    case PlanQuery::kCompare:
      return "--compare";
    case PlanQuery::kPhases:
      return "--phases";
    case PlanQuery::kMaxSize:
      return "--max-size";
    case PlanQuery::kShapes:
      return "--search-shape";
    case PlanQuery::kMaxSequence:
      return "--max-sequence";
    case PlanQuery::kNodeSchedule:
      return "--node-schedule";
    case PlanQuery::kCase:
      return "a row of a table";
  }
  Fail("a query without a name");
}

const char* InsteadOf(const std::string& option, PlanQuery query) {
  if (option == "--fix" && query == PlanQuery::kLayout) {
    return ": name the keys in --layout, which leaves the others free";
  }
  if (query == PlanQuery::kPhases && (option == "--nodes" || option == "--gpus" || option == "--spare-nodes")) {
    return ": every phase names its nodes";
  }
  if (option == "--at-most") {
    return ": it leaves nodes idle anyway where that is faster";
  }
  return "";
}

}  // namespace

OptimizerKind KindOf(const std::string& optimizer) {
  return optimizer == kTorchAdam ? OptimizerKind::kAdamW : FromWord<OptimizerKind>("--optimizer", optimizer);
}

PlanQuery QueryOf(const PlanOptions& options) {
  if (options.max_sequence) {
    return PlanQuery::kMaxSequence;
  }
  if (options.max_size) {
    return PlanQuery::kMaxSize;
  }
  if (!options.search_shape.empty()) {
    return PlanQuery::kShapes;
  }
  if (options.node_schedule) {
    return PlanQuery::kNodeSchedule;
  }
  if (!options.phases.empty()) {
    return PlanQuery::kPhases;
  }
  return options.layout.empty() ? PlanQuery::kRank : PlanQuery::kLayout;
}

PlanQuery CaseQueryOf(const PlanOptions& options) {
  const PlanQuery query = QueryOf(options);
  const bool ranks = query == PlanQuery::kRank || query == PlanQuery::kLayout;
  Require(ranks || query == PlanQuery::kMaxSize, "a table has rows for layouts, rankings and --max-size, not for {}",
          NameOf(query));
  return ranks ? PlanQuery::kCase : query;
}

void RequireReadBy(const PlanOptions& options, PlanQuery query) {
  for (const OptionUse& use : UsesOf(options)) {
    const bool read = std::find(use.queries.begin(), use.queries.end(), query) != use.queries.end();
    Require(read || !use.given, "{} has no use for {}{}", NameOf(query), use.name, InsteadOf(use.name, query));
  }
}

void RequireConsistent(const PlanOptions& options) {
  Require(!options.estimate || options.tokens > 0, "--estimate needs --tokens");
  Require(options.deadline == 0 || options.tokens > 0, "--deadline needs --tokens");
  Require(options.allocation == 0 || options.tokens > 0, "--allocation needs --tokens");
  Require(!options.full || options.emit.find("recipe") != std::string::npos, "--full needs --emit recipe");
  Require(options.criteria.empty() || !options.search_shape.empty(),
          "--criteria {}: they are of the shapes that --search-shape proposes", options.criteria);
  Require(!options.node_schedule || !options.ramp.empty(),
          "--node-schedule needs the --ramp whose batches it is for, such as --ramp 32,32,1M");
  Require(options.timeline.empty() || !options.layout.empty(), "--timeline needs --layout");
  Require(options.sequences.empty() || !options.layout.empty(), "--sequences needs --layout");
  Require(!options.layout_defaults || !options.layout.empty(), "--layout-defaults needs --layout");
  const bool job = !options.job.time_limit.empty() || !options.job.account.empty() || !options.job.partition.empty();
  Require(!job || options.emit.find("sbatch") != std::string::npos,
          "--time-limit, --account and --partition are of a job: they need --emit sbatch");
  Require(!options.max_size || options.search_shape.empty(), "--max-size and --search-shape {}: give one of them",
          options.search_shape);
  Require(!options.max_sequence || (!options.SearchesShapes() && options.layout.empty()),
          "--max-sequence looks for the samples of a given model: leave out {}",
          options.layout.empty() ? "--max-size and --search-shape" : "--layout, and hold axes by --fix");
  Require(options.nodes == 0 || options.gpus == 0, "--nodes {} and --gpus {}: give one of them", options.nodes,
          options.gpus);
  Require(options.global_batch >= 0 && options.global_batch <= kMostGlobalBatch,
          "--global-batch {}: a step has at least 1 sample and at most {}", options.global_batch, kMostGlobalBatch);
  const std::string& dtype = options.dtype;
  Require(dtype == "auto" || dtype == "bf16" || dtype == "fp16" || dtype == "fp32",
          "--dtype {}: models train in bf16, fp16 or fp32", dtype);
  KindOf(options.optimizer);
  Require(options.moments == "fp32" || options.moments == "bf16", "--moments {}: optimizers keep them in fp32 or bf16",
          options.moments);
  Require(options.attention == "auto" || options.attention == "flash" || options.attention == "plain",
          "--attention {}: give flash, plain or auto, which is what the program has", options.attention);
  Require(options.accumulate == "auto" || options.accumulate == "fp32" || options.accumulate == "working",
          "--accumulate {}: give fp32, working or auto, which is what the program does", options.accumulate);
  std::string left = options.emit + ",";
  for (std::size_t comma = left.find(','); !options.emit.empty() && comma != std::string::npos;
       comma = left.find(',')) {
    const std::string word = left.substr(0, comma);
    Require(word == "recipe" || word == "sbatch", "--emit '{}' must be recipe, sbatch or recipe,sbatch", options.emit);
    left.erase(0, comma + 1);
  }
}

void RequireKnownOf(const PlanSubject& subject, const PlanOptions& options, bool every_recipe) {
  const SoftwareStack& stack = subject.stack;
  const bool known = options.optimizer == Name(OptimizerKind::kAdamW) ||
                     options.optimizer == Name(OptimizerKind::kAdafactor) || options.optimizer == kTorchAdam;
  Require(known || every_recipe,
          "--optimizer {}: of stack '{}' only memory and time with adamw and adafactor are known; --stack trireme has "
          "the others",
          options.optimizer, stack.name);
  Require(!subject.model.adapter.any() || every_recipe,
          "the model has LoRA adapters (lora.rank = {}): of stack '{}' only memory and time of whole models are known; "
          "--stack trireme has both",
          subject.model.adapter.rank, stack.name);
  Require(options.moments == "fp32" || stack.policy.bf16_moments,
          "--moments {}: of stack '{}' only memory and time with fp32 moments are known; --stack trireme has both",
          options.moments, stack.name);
  Require(options.optimizer != kTorchAdam || !every_recipe,
          "--optimizer {}: '{}' updates in one kernel; other programs may have separate ones", kTorchAdam, stack.name);
  Require(options.accumulate == "auto" || !every_recipe, "--accumulate {}: '{}' adds up gradients in fp32 always",
          options.accumulate, stack.name);
  Require(options.accumulate != "fp32" || stack.memory.accumulation > 0 || stack.time.accumulate_bytes > 0,
          "--accumulate fp32: stack '{}' has no such accumulation that is known", stack.name);
  Require(options.power_sgd_rank == 0 || every_recipe || stack.time.power_sgd_seconds > 0,
          "--powersgd {}: no run of stack '{}' that compresses gradients is known; --stack trireme does",
          options.power_sgd_rank, stack.name);
}

}  // namespace trireme
