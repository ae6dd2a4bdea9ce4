#include "planner/queries/plan_answer.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <numeric>

#include "base/count_text.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/units.h"
#include "planner/pricing/interval.h"
#include "planner/queries/compare.h"
#include "planner/queries/deadline.h"
#include "planner/queries/emit_chain.h"
#include "planner/queries/explain.h"
#include "planner/queries/first_choice.h"
#include "planner/queries/length_figure.h"
#include "planner/queries/node_schedule.h"
#include "planner/queries/phases.h"
#include "planner/queries/plan_cases.h"
#include "planner/queries/plan_json.h"
#include "planner/queries/plan_text.h"
#include "planner/queries/ramp.h"
#include "planner/queries/shapes.h"
#include "planner/queries/timeline.h"
#include "planner/search/layout_space.h"
#include "run/recipe_keys.h"

namespace trireme {
namespace {

// Layouts that a search keeps where --rows is not given.
constexpr int kRows = 15;
// Below this probability a row of a table says that memory is short.
constexpr double kSurelyFits = 0.9;

DType ElementOf(const PlanOptions& options, const DeviceSpec& device) {
  if (options.dtype == "auto") {
    return device.has_bf16 ? DType::kBFloat16 : DType::kFloat16;
  }
  Require(options.dtype != "bf16" || device.has_bf16, "--dtype bf16: {} multiplies fp16 alone; the nearest is fp16",
          device.name);
  return ParseDType(options.dtype);
}

// Axes that `fix` holds, such as "tp=4 zero=1 recompute=full". A word that is not given is left to the search, and one
// that no search varies is refused.
void Hold(const std::string& fix, SearchRequest& request) {
  const ParallelLayout unset{.tensor = 0,
                             .context = 0,
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
  hold(held.context, 0, request.context);
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
  if (given("cp")) {
    request.context_kind = held.context_kind;
  }
  if (given("recompute")) {
    request.recompute = Name(held.recompute);
  }
  if (given("offload")) {
    request.offload = Name(held.offload);
  }
  if (given("offload_activations")) {
    request.offload_activations = held.offload_activations;
  }
  if (given("sp")) {
    request.sequence_parallel = held.sequence_parallel;
  }
  for (const char* const word : {"shards", "whole", "reduce", "gather"}) {
    Require(!given(word), "--fix {}: a search does not vary it; --layout prices one layout with it", word);
  }
}

BatchConfig ReadRamp(const std::string& ramp, std::int64_t global_batch) {
  BatchConfig batch{.global = global_batch};
  if (!ramp.empty()) {
    std::string digits;
    for (std::size_t at = 0; at <= ramp.size();) {
      const std::size_t comma = std::min(ramp.find(',', at), ramp.size());
      digits += (at > 0 ? "," : "") + WithoutUnit(ramp.substr(at, comma - at));
      at = comma + 1;
    }
    int read = 0;
    Require(std::sscanf(digits.c_str(), "%" SCNd64 ",%" SCNd64 ",%" SCNd64 "%n", &batch.ramp_start,
                        &batch.ramp_increment, &batch.ramp_samples, &read) == 3 &&
                static_cast<std::size_t>(read) == digits.size(),
            "--ramp '{}' must be start,increment,samples, such as 192,16,9765625", ramp);
    RequireRamp(batch);
  }
  return batch;
}

int DevicesOf(const Cluster& cluster, const PlanOptions& options) {
  const int all =
      options.gpus > 0 ? options.gpus : (options.nodes > 0 ? options.nodes : cluster.nodes) * cluster.devices_per_node;
  const int spare = options.spare_nodes * cluster.devices_per_node;
  Require(spare < all, "{} spare nodes leave nothing of {} devices", options.spare_nodes, all);
  return all - spare;
}

StackState StateOf(const PlanSubject& subject, const PlanOptions& options) {
  StackState state = Resolve(subject.stack, subject.cluster, "");
  state.time.flash = state.time.flash && options.attention == "flash";
  return state;
}

RunConfig ConfigFor(const PlanSubject& subject, const PlanOptions& options, std::int64_t global_batch) {
  RunConfig config;
  config.model = subject.model;
  config.batch.global = global_batch;
  config.train.dtype = Name(ElementOf(options, subject.cluster.device));
  config.optimizer.kind = FromWord<OptimizerKind>("--optimizer", options.optimizer);
  config.optimizer.moments = options.moments;
  config.optimizer.powersgd_rank = options.power_sgd_rank;
  return config;
}

class AnswerBuilder {
 public:
  AnswerBuilder(const PlanSubject& subject, const PlanOptions& options)
      : subject_(subject),
        options_(options),
        state_(StateOf(subject, options)),
        devices_(DevicesOf(subject.cluster, options)),
        global_batch_(ChooseBatch()),
        batch_(ReadRamp(options.ramp, global_batch_)),
        request_{.cluster = subject.cluster,
                 .stack = subject.stack,
                 .state = state_,
                 .config = ConfigFor(subject, options, global_batch_),
                 .devices = devices_,
                 .ramp_unit = std::gcd(batch_.ramp_start, batch_.ramp_increment),
                 .most_tensor = options.most_tensor,
                 .most_context = options.most_context,
                 .most_micro_batch = options.most_micro_batch,
                 .headroom = options.headroom,
                 .keep = options.rows > 0 ? options.rows : kRows,
                 .threads = options.threads} {
    Hold(options_.fix, request_);
    if (options.power_sgd_rank > 0 && !request_.zero) {
      request_.zero = 1;
    }
  }

  // The question as one row of a table.
  RunRow Case() {
    if (options_.max_size) {
      const ShapeProposal largest = LargestModel(request_);
      request_.config.model = largest.model;
      return RowOf(largest.best);
    }
    if (!options_.layout.empty()) {
      return RowOf(Price(request_, WithReplicas(ParseLayoutOf(request_.config.model, options_.layout))));
    }
    SearchRequest one = request_;
    one.keep = 1;
    const SearchResult found = Search(one);
    if (found.ranked.empty()) {
      const auto most = std::max_element(found.refused.begin(), found.refused.end(),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
      Fail("no layout fits{}", most == found.refused.end() ? "" : ": mostly " + most->first);
    }
    return RowOf(found.ranked.front());
  }
  // The row of a question without an answer.
  RunRow Unanswered() const {
    RunRow row{.config = request_.config, .nodes = NodesOf(devices_)};
    try {
      row.config.layout = WithReplicas(ParseLayoutOf(request_.config.model, options_.layout));
    } catch (const Error&) {
      // The row says why.
    }
    return row;
  }

  PlanAnswer Take() {
    if (!subject_.compared.empty()) {
      Compare();
    } else if (!options_.layout.empty()) {
      Explain();
    } else if (options_.max_sequence) {
      const LongestSequence longest = FindLongestSequence(request_);
      Say(ToText(longest), ToJsonValue(longest));
    } else if (options_.SearchesShapes()) {
      const std::vector<ShapeProposal> shapes = options_.max_size
                                                    ? std::vector<ShapeProposal>{LargestModel(request_)}
                                                    : SearchShapes(request_, ParseSize(options_.search_shape),
                                                                   request_.keep, ParseCriteria(options_.criteria));
      Say(ToText(shapes), ToJsonValue(shapes));
    } else if (options_.node_schedule) {
      ScheduleNodes();
    } else if (!options_.phases.empty()) {
      const std::vector<PhasePlan> plans = PlanPhases(request_, ParsePhases(options_.phases), options_.tokens);
      Say(ToText(plans, options_.tokens), ToJsonValue(plans));
    } else {
      Rank();
    }
    return std::move(answer_);
  }

 private:
  int NodesOf(int devices) const {
    return (devices + subject_.cluster.devices_per_node - 1) / subject_.cluster.devices_per_node;
  }

  // A layout that does not say how many replicas it has takes all devices.
  ParallelLayout WithReplicas(ParallelLayout layout) const {
    const int replica = layout.tensor * layout.context * layout.pipeline;
    if (ParseLayoutWords(options_.layout).count("dp") == 0 && devices_ % replica == 0) {
      layout.data = devices_ / replica;
    }
    return layout;
  }

  RunRow RowOf(const Candidate& candidate) const {
    const double usable = UsableMemory(request_.cluster);
    RunRow row{.config = ConfigOf(request_, candidate.layout),
               .nodes = NodesOf(candidate.layout.ranks()),
               .seconds = candidate.seconds,
               .memory = candidate.peak,
               .hardware = candidate.hardware_tflops,
               .mfu = candidate.mfu,
               .fit = FitProbability(candidate.peak, usable, state_.memory_spread)};
    if (candidate.host > request_.cluster.host_memory) {
      row.failure = fmt::format("out of host memory: {:.1f} of {:.1f} GiB a node", candidate.host / kGibi,
                                request_.cluster.host_memory / kGibi);
    } else if (row.fit < kFitsFrom) {
      row.failure = fmt::format("out of memory: {:.1f} of {:.1f} GiB", candidate.peak / kGibi, usable / kGibi);
    } else if (row.fit < kSurelyFits) {
      row.remark = "near out of memory";
    }
    return row;
  }

  void Say(const std::string& text, nlohmann::json json) {
    answer_.text = text;
    answer_.json = std::move(json);
  }

  // What is usual for a model of this size, where no batch was given; and says so.
  std::int64_t ChooseBatch() {
    if (options_.global_batch > 0) {
      return options_.global_batch;
    }
    if (options_.max_sequence) {
      answer_.notes.push_back(
          fmt::format("no --global-batch given: taking one sample for each of the {} devices", devices_));
      return devices_;
    }
    Require(!options_.max_size,
            "--max-size needs --global-batch: the usual batch depends on the size that is looked for");
    const double parameters = options_.search_shape.empty() ? static_cast<double>(ParameterCount(subject_.model))
                                                            : ParseSize(options_.search_shape);
    const std::int64_t batch = UsualBatch(parameters, subject_.model.sequence, devices_);
    answer_.notes.push_back(
        fmt::format("no --global-batch given: taking {} samples of {} tokens, usual for {:.3g} B parameters", batch,
                    subject_.model.sequence, parameters / 1e9));
    return batch;
  }

  void Compare() {
    std::optional<ParallelLayout> wanted;
    if (!options_.layout.empty()) {
      wanted = ParseLayoutOf(request_.config.model, options_.layout);
    }
    const std::vector<Compared> compared = trireme::Compare(request_, subject_.compared, wanted);
    Say(ToText(compared), ToJsonValue(compared));
    answer_.found = std::any_of(compared.begin(), compared.end(), [](const Compared& one) { return !!one.best; });
  }

  // A layout that the program cannot run: why, and the fastest that it can.
  void Refuse(const std::string& reason) {
    const SearchResult result = Search(request_);
    const std::string instead = result.ranked.empty() ? "" : result.ranked.front().layout.ToString();
    Say(fmt::format("refused: {}\n", reason), {{"refused", reason}, {"instead", instead}});
    if (!instead.empty()) {
      answer_.text += fmt::format("fastest that '{}' can run here: {}, {:.2f} s/step\n", request_.stack.name, instead,
                                  result.ranked.front().seconds);
    }
    answer_.found = false;
  }

  void Explain() {
    const ParallelLayout wanted = ParseLayoutOf(request_.config.model, options_.layout);
    if (const std::string reason = StackRefusal(request_, wanted); !reason.empty()) {
      return Refuse(reason);
    }
    const Explanation explanation = trireme::Explain(request_, wanted);
    const std::int64_t micro_batches = global_batch_ / (static_cast<std::int64_t>(wanted.micro_batch) * wanted.data);
    answer_.text = ToText(explanation, request_, options_.tokens);
    if (options_.timeline == "text") {
      answer_.text += "\n" + TimelineText(wanted, explanation.estimate, micro_batches);
    } else if (!options_.timeline.empty()) {
      answer_.files.push_back({options_.timeline, TimelineTrace(wanted, explanation.estimate, micro_batches)});
    }
    const std::vector<LengthPoint> lengths = options_.sequences.empty()
                                                 ? std::vector<LengthPoint>{}
                                                 : PriceLengths(request_, wanted, ParseLengths(options_.sequences));
    answer_.text += lengths.empty() ? "" : LengthFigure(lengths);
    nlohmann::json more = Finish(explanation.candidate);
    if (options_.tokens > 0) {
      more.update(DaysJson(request_, explanation.candidate, options_.tokens));
    }
    for (const LengthPoint& point : lengths) {
      more["lengths"].push_back({{"tokens", point.tokens},
                                 {"seconds", point.seconds},
                                 {"attention_share", point.attention},
                                 {"context_share", point.context},
                                 {"peak", point.peak},
                                 {"fits", point.fits},
                                 {"refusal", point.refusal}});
    }
    more.update(ParseJson(ToJson(explanation, request_)));
    answer_.json = std::move(more);
  }

  void Rank() {
    const SearchResult result = Search(request_);
    const RankingOptions options{.tokens = options_.tokens,
                                 .deadline_days = options_.deadline,
                                 .device_hours = options_.allocation,
                                 .rows = options_.rows};
    answer_.json = RankingJson(result, request_, options);
    answer_.found = !result.ranked.empty();
    if (!answer_.found) {
      const LeastDevices least = FindLeastDevices(request_, result);
      answer_.text = NothingFitsText(result, request_, least);
      answer_.json["needed"] = ToJsonValue(least);
      return;
    }
    answer_.text = RankingText(result, request_, options);
    const FirstChoice first = JudgeFirst(request_, result.ranked);
    answer_.text += ToText(first);
    answer_.json["expected_regret"] = first.expected_regret;
    const double deadline = options_.deadline;
    if (deadline > 0 && TimeOfTraining(request_, result.ranked.front(), options_.tokens).days > deadline) {
      const DeadlineAnswer nodes = NodesForDeadline(request_, options_.tokens, deadline);
      answer_.text += "\n" + ToText(nodes, request_, deadline);
      answer_.json["deadline"] = ToJsonValue(nodes);
    }
    answer_.json.update(Finish(result.ranked.front()));
  }

  // What follows once a layout is chosen: the ramp, the whole training, files. The returned object holds the same.
  nlohmann::json Finish(const Candidate& chosen) {
    nlohmann::json told = nlohmann::json::object();
    RampPlan plan;
    if (batch_.ramp_start > 0) {
      plan = PriceRamp(request_, batch_, chosen.layout);
      const std::string stages = StagesOf(plan, request_, chosen.layout);
      answer_.text += "\n" + ToText(plan);
      answer_.text += fmt::format("as stages of one run: train.stages = \"{}\"\n", stages);
      told["ramp"] = ToJsonValue(plan);
      told["ramp"]["stages"] = stages;
    }
    // Where no end is given, a long run: the best interval of checkpoints does not depend on it.
    const double samples = options_.tokens > 0 ? options_.tokens / static_cast<double>(request_.config.model.sequence)
                                               : 1e6 * static_cast<double>(global_batch_);
    const TrainingTime time =
        EstimateTraining({.cluster = request_.cluster,
                          .devices = request_.devices,
                          .spare_nodes = options_.spare_nodes,
                          .checkpoint_bytes = 12 * static_cast<double>(ParameterCount(request_.config.model))},
                         StretchesOf(plan, chosen, batch_, samples));
    const int every = std::max(1, static_cast<int>(time.checkpoint_interval / chosen.seconds));
    if (options_.estimate) {
      const std::string told_time = fmt::format(
          "{:.1f} days ({:.1f} of steps alone), {:.0f} device-hours, {:.1f} failures expected, {:.1f} % lost; a "
          "checkpoint every {} steps ({:.0f} s, each stops training for {:.1f} s){}",
          time.days, time.busy_days, time.device_hours, time.failures, 100 * time.lost_share, every,
          time.checkpoint_interval, time.checkpoint_seconds,
          time.megawatt_hours > 0 ? fmt::format("; {:.0f} MWh", time.megawatt_hours) : "");
      answer_.text += "\n" + Wrapped("", told_time);
      told["estimate"] = ToJsonValue(time);
    }
    Emit(chosen.layout, every);
    return told;
  }

  // Nodes for each batch of the ramp, and the chain of jobs that follows them.
  void ScheduleNodes() {
    const NodeSchedule schedule = PlanNodes(request_, batch_);
    const std::string stages = StagesOf(schedule, request_);
    Say(RequestText(request_) + "\n" + ToText(schedule), ToJsonValue(schedule));
    answer_.text += "as stages of one run: --emit recipe,sbatch writes them and the chain of jobs\n";
    answer_.json["stages"] = stages;
    const NodeScheduleRow& last = schedule.rows.back();
    SearchRequest at = request_;
    at.devices = last.devices;
    at.ramp_unit = 0;
    constexpr double kHoursBetweenCheckpoints = 1;
    const EmitRequest emitted{
        .search = at,
        .layout = last.best.layout,
        .tokens = options_.tokens,
        .batch = {.global = global_batch_},
        .checkpoint_every = std::max(1, static_cast<int>(kHoursBetweenCheckpoints * 3600 / last.best.seconds)),
        .name = options_.out.substr(options_.out.find_last_of('/') + 1),
        .job = options_.job,
        .full = options_.full,
        .program = options_.program,
        .stages = stages};
    if (options_.emit.find("recipe") != std::string::npos) {
      answer_.files.push_back({options_.out + ".toml", EmitRecipe(emitted)});
    }
    if (options_.emit.find("sbatch") != std::string::npos) {
      answer_.files.push_back({options_.out + ".sbatch", EmitChain(emitted, schedule.rows.front().devices,
                                                                   options_.out + ".toml", options_.out + ".sbatch")});
    }
  }

  void Emit(const ParallelLayout& layout, int checkpoint_every) {
    const EmitRequest emitted{.search = request_,
                              .layout = layout,
                              .tokens = options_.tokens,
                              .batch = batch_,
                              .checkpoint_every = checkpoint_every,
                              .spare_nodes = options_.spare_nodes,
                              .name = options_.out.substr(options_.out.find_last_of('/') + 1),
                              .job = options_.job,
                              .full = options_.full,
                              .program = options_.program};
    if (options_.emit.find("recipe") != std::string::npos) {
      answer_.files.push_back({options_.out + ".toml", EmitRecipe(emitted)});
    }
    if (options_.emit.find("sbatch") != std::string::npos) {
      answer_.files.push_back({options_.out + ".sbatch", EmitSbatch(emitted, options_.out + ".toml")});
    }
  }

  const PlanSubject& subject_;
  const PlanOptions& options_;
  PlanAnswer answer_;
  StackState state_;
  int devices_;
  std::int64_t global_batch_;
  BatchConfig batch_;
  SearchRequest request_;
};

}  // namespace

ModelConfig ModelOfShape(const ModelConfig* named, const ShapeOptions& shape) {
  ModelConfig config;
  if (named != nullptr) {
    config = *named;
  } else {
    config.family = shape.family;
    config.vocabulary = 50'304;
    config.sequence = 2048;
  }
  const auto take = [](std::int64_t given, std::int64_t& field) { field = given > 0 ? given : field; };
  config.ffn = shape.hidden > 0 ? 0 : config.ffn;
  config.kv_heads = shape.heads > 0 ? 0 : config.kv_heads;
  take(shape.layers, config.layers);
  take(shape.hidden, config.hidden);
  take(shape.heads, config.heads);
  take(shape.kv_heads, config.kv_heads);
  take(shape.ffn, config.ffn);
  take(shape.vocabulary, config.vocabulary);
  take(shape.sequence, config.sequence);
  return Completed(config, named != nullptr);
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
  FromWord<OptimizerKind>("--optimizer", options.optimizer);
  Require(options.moments == "fp32" || options.moments == "bf16", "--moments {}: optimizers keep them in fp32 or bf16",
          options.moments);
  Require(options.attention == "flash" || options.attention == "plain", "--attention {}: give flash or plain",
          options.attention);
  std::string left = options.emit + ",";
  for (std::size_t comma = left.find(','); !options.emit.empty() && comma != std::string::npos;
       comma = left.find(',')) {
    const std::string word = left.substr(0, comma);
    Require(word == "recipe" || word == "sbatch", "--emit '{}' must be recipe, sbatch or recipe,sbatch", options.emit);
    left.erase(0, comma + 1);
  }
}

namespace {

// What the stack is not known to do with these options.
void RequireKnown(const PlanSubject& subject, const PlanOptions& options) {
  const bool every_recipe =
      ChoosePrices(subject.cluster, StateOf(subject, options), DType::kFloat32).prices_every_recipe();
  Require(options.optimizer == Name(OptimizerKind::kAdamW) || every_recipe,
          "--optimizer {}: of stack '{}' only memory and time with adamw are known; --stack trireme has the others",
          options.optimizer, subject.stack.name);
  Require(!subject.model.adapter.any() || every_recipe,
          "the model has LoRA adapters (lora.rank = {}): of stack '{}' only memory and time of whole models are known; "
          "--stack trireme has both",
          subject.model.adapter.rank, subject.stack.name);
  Require(options.moments == "fp32" || subject.stack.policy.bf16_moments,
          "--moments {}: of stack '{}' only memory and time with fp32 moments are known; --stack trireme has both",
          options.moments, subject.stack.name);
  Require(options.attention == "flash" || every_recipe,
          "--attention {}: a file of stack '{}' says which attention it has; --stack trireme has both",
          options.attention, subject.stack.name);
  Require(options.power_sgd_rank == 0 || every_recipe,
          "--powersgd {}: stack '{}' compresses no gradients that the planner knows; --stack trireme does",
          options.power_sgd_rank, subject.stack.name);
}

}  // namespace

RunRow PlanCase(const PlanSubject& subject, const PlanOptions& options) {
  RequireConsistent(options);
  RequireKnown(subject, options);
  AnswerBuilder answering(subject, options);
  try {
    return answering.Case();
  } catch (const Error& error) {
    RunRow row = answering.Unanswered();
    row.failure = fmt::format("refused: {}", error.what());
    return row;
  }
}

PlanAnswer AnswerPlan(const PlanSubject& subject, const PlanOptions& options) {
  if (!options.emit.empty()) {
    RequireEmittable(subject.cluster, options.out, options.job);
  }
  RequireKnown(subject, options);
  return AnswerBuilder(subject, options).Take();
}

}  // namespace trireme
