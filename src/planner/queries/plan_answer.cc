#include "planner/queries/plan_answer.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <numeric>
#include <set>

#include "base/count_text.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/units.h"
#include "planner/pricing/interval.h"
#include "planner/queries/compare.h"
#include "planner/queries/complete_layout.h"
#include "planner/queries/deadline.h"
#include "planner/queries/emit_chain.h"
#include "planner/queries/explain.h"
#include "planner/queries/first_choice.h"
#include "planner/queries/length_figure.h"
#include "planner/queries/node_schedule.h"
#include "planner/queries/phases.h"
#include "planner/queries/plan_cases.h"
#include "planner/queries/plan_json.h"
#include "planner/queries/plan_options.h"
#include "planner/queries/plan_text.h"
#include "planner/queries/ramp.h"
#include "planner/queries/shapes.h"
#include "planner/queries/timeline.h"
#include "planner/search/at_most.h"
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
  const std::set<std::string> given = ParseLayoutWords(fix);
  for (const char* const word : {"shards", "whole", "reduce", "gather"}) {
    Require(!given.contains(word), "--fix {}: a search does not vary it; --layout prices one layout with it", word);
  }
  HoldKeys(fix, request);
}

// Memory, where any layout is possible but for it; else what most of them lack.
std::string WhyNoneFits(const SearchResult& found) {
  for (const char* const memory : {kOutOfDeviceMemory, kOutOfHostMemory}) {
    if (found.refused.contains(memory)) {
      return fmt::format(": {}", memory);
    }
  }
  const auto most = std::max_element(found.refused.begin(), found.refused.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == found.refused.end() ? "" : ": mostly " + most->first;
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

StackState ResolvedFor(const SoftwareStack& stack, const Cluster& cluster, const PlanOptions& options) {
  StackState state = Resolve(stack, cluster, "");
  if (options.attention != "auto") {
    state.time.flash = options.attention == "flash";
  }
  if (options.accumulate != "auto") {
    state.time.half_accumulates = options.accumulate == "fp32";
  }
  state.time.blocking = state.time.blocking || options.launch_blocking;
  return state;
}

// Micro batches that a search tries: fewer where it searches many models.
int MostMicroBatch(const PlanOptions& options) {
  constexpr int kUsual = 64;
  constexpr int kOfManyModels = 8;
  return options.most_micro_batch > 0 ? options.most_micro_batch
                                      : (options.SearchesShapes() || options.max_sequence ? kOfManyModels : kUsual);
}

bool PricesEveryRecipe(const PlanSubject& subject, const StackState& state) {
  return ChoosePrices(subject.cluster, state, DType::kFloat32).prices_every_recipe();
}

// For other programs Adafactor and PowerSGD are not a recipe's keys but what their runs were priced with.
RunConfig ConfigFor(const PlanSubject& subject, const PlanOptions& options, bool every_recipe,
                    std::int64_t global_batch) {
  RunConfig config;
  config.model = subject.model;
  config.batch.global = global_batch;
  config.train.dtype = Name(ElementOf(options, subject.cluster.device));
  config.optimizer.moments = options.moments;
  if (every_recipe) {
    config.optimizer.kind = KindOf(options.optimizer);
    config.optimizer.powersgd_rank = options.power_sgd_rank;
  }
  return config;
}

class AnswerBuilder {
 public:
  AnswerBuilder(const PlanSubject& subject, const PlanOptions& options)
      : subject_(subject),
        options_(options),
        state_(ResolvedFor(subject.stack, subject.cluster, options)),
        devices_(DevicesOf(subject.cluster, options)),
        global_batch_(ChooseBatch()),
        batch_(ReadRamp(options.ramp, global_batch_)),
        every_recipe_(PricesEveryRecipe(subject, state_)),
        request_{.cluster = subject.cluster,
                 .stack = subject.stack,
                 .state = state_,
                 .config = ConfigFor(subject, options, every_recipe_, global_batch_),
                 .devices = devices_,
                 .ramp_unit = std::gcd(batch_.ramp_start, batch_.ramp_increment),
                 .most_tensor = options.most_tensor,
                 .most_context = options.most_context,
                 .most_micro_batch = MostMicroBatch(options),
                 .headroom = options.headroom,
                 .keep = options.rows > 0 ? options.rows : kRows,
                 .threads = options.threads,
                 .may_idle = options.at_most,
                 .tie = state_.paired_spread,
                 .power_sgd = !every_recipe_ && options.power_sgd_rank > 0,
                 .fused_optimizer = every_recipe_ || options.optimizer == Name(OptimizerKind::kAdamW),
                 .factored_moments = !every_recipe_ && options.optimizer == Name(OptimizerKind::kAdafactor)} {
    Hold(options_.fix, request_);
    if (const std::string absence = TrainerAbsence(subject.cluster); every_recipe_ && !absence.empty()) {
      answer_.notes.push_back("a price only: " + absence);
    }
    if (every_recipe_ && options.power_sgd_rank > 0 && !request_.zero) {
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
      const CompletedLayout completed = Completed();
      request_.devices = completed.devices;
      return RowOf(Price(request_, completed.layout));
    }
    SearchRequest one = request_;
    one.keep = 1;
    const SearchResult found = SearchAllocation(one).found;
    if (found.ranked.empty()) {
      Fail("no layout fits{}", WhyNoneFits(found));
    }
    return RowOf(found.recommended);
  }
  // The row of a question without an answer.
  RunRow Unanswered() const {
    RunRow row{.config = request_.config, .nodes = NodesOf(devices_)};
    row.has_model = !options_.max_size;
    row.has_layout = false;
    row.config.layout.data = devices_;
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
      request_.config.model.sequence = longest.tokens;
      SayDays(DaysOf(request_.config.model, longest.best), answer_.json["best"]);
    } else if (options_.SearchesShapes()) {
      const std::vector<ShapeProposal> shapes = options_.max_size
                                                    ? std::vector<ShapeProposal>{LargestModel(request_)}
                                                    : SearchShapes(request_, ParseSize(options_.search_shape),
                                                                   request_.keep, ParseCriteria(options_.criteria));
      Say(ToText(shapes), ToJsonValue(shapes));
      for (std::size_t i = 0; i < shapes.size(); ++i) {
        SayDays(DaysOf(shapes[i].model, shapes[i].best), answer_.json[i]["best"]);
      }
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

  CompletedLayout Completed() const {
    return CompleteLayout(request_, {.layout = options_.layout, .defaults = options_.layout_defaults});
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
    if (candidate.host > request_.cluster.job_memory()) {
      row.failure = fmt::format("out of host memory: {:.1f} of {:.1f} GiB a node", candidate.host / kGibi,
                                request_.cluster.job_memory() / kGibi);
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

  // Days of the whole training; null where its tokens are not given.
  nlohmann::json DaysOf(const ModelConfig& model, const Candidate& candidate) const {
    SearchRequest own = request_;
    own.config.model = model;
    own.devices = candidate.layout.ranks();
    return options_.tokens > 0 ? DaysJson(own, candidate, options_.tokens) : nlohmann::json();
  }

  // Into an entry of the answer, and as a line.
  void SayDays(const nlohmann::json& days, nlohmann::json& entry) {
    if (!days.is_null()) {
      entry.update(days);
      answer_.text += fmt::format("{:.1f} days for {:.4g} tokens: {}\n", days["days"].get<double>(), options_.tokens,
                                  entry["layout"].get<std::string>());
    }
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
    const AskedLayout asked{.layout = options_.layout, .defaults = options_.layout_defaults};
    const std::vector<Compared> compared = trireme::Compare(
        request_, subject_.compared,
        [&](const SoftwareStack& stack) { return ResolvedFor(stack, subject_.cluster, options_); }, asked);
    Say(ToText(compared), ToJsonValue(compared));
    for (std::size_t i = 0; i < compared.size(); ++i) {
      if (compared[i].best) {
        SayDays(DaysOf(subject_.model, *compared[i].best), answer_.json[i]);
      }
    }
    answer_.found = std::any_of(compared.begin(), compared.end(), [](const Compared& one) { return !!one.best; });
  }

  // A layout that the program cannot run: why, and the fastest that it can.
  void Refuse(const std::string& reason) {
    const SearchResult result = Search(request_);
    const std::string instead = result.ranked.empty() ? "" : NamedLayout(result.recommended.layout);
    Say(fmt::format("refused: {}\n", reason), {{"refused", reason}, {"instead", instead}});
    if (!instead.empty()) {
      answer_.text += fmt::format("fastest that '{}' can run here: {}, {:.2f} s/step\n", request_.stack.name, instead,
                                  result.recommended.seconds);
    }
    answer_.found = false;
  }

  void Explain() {
    const CompletedLayout completed = Completed();
    const ParallelLayout& wanted = completed.layout;
    if (const std::string reason = StackRefusal(request_, wanted); !reason.empty()) {
      return Refuse(reason);
    }
    request_.devices = completed.devices;
    const Explanation explanation = trireme::Explain(request_, wanted);
    const std::int64_t micro_batches = global_batch_ / (static_cast<std::int64_t>(wanted.micro_batch) * wanted.data);
    answer_.text = ToText(explanation, request_, options_.tokens);
    answer_.text += completed.text.empty() ? "" : "\n" + Wrapped("", completed.text);
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
    more["chosen"] = completed.chosen;
    more["idle"] = devices_ - completed.devices;
    answer_.json = std::move(more);
  }

  void Rank() {
    const AtMostResult most = SearchAllocation(request_);
    const SearchResult& result = most.found;
    const RankingOptions options{.tokens = options_.tokens,
                                 .deadline_days = options_.deadline,
                                 .device_hours = options_.allocation,
                                 .rows = options_.rows};
    const std::string idle = IdleText(most, request_);
    request_.devices = most.devices;
    answer_.json = RankingJson(result, request_, options);
    answer_.json["allocated"] = devices_;
    answer_.json["idle"] = devices_ - most.devices;
    answer_.json["idle_reason"] = idle;
    answer_.found = !result.ranked.empty();
    if (!answer_.found) {
      const LeastDevices least = FindLeastDevices(request_, result);
      answer_.text = NothingFitsText(result, request_, least);
      answer_.json["needed"] = ToJsonValue(least);
      return;
    }
    answer_.text = (idle.empty() ? "" : Wrapped("", idle)) + RankingText(result, request_, options);
    const FirstChoice first = JudgeFirst(request_, result.ranked);
    answer_.text += ToText(first);
    answer_.json["expected_regret"] = first.expected_regret;
    const double deadline = options_.deadline;
    if (deadline > 0 && TimeOfTraining(request_, result.ranked.front(), options_.tokens).days > deadline) {
      SearchRequest larger = request_;
      larger.devices = devices_;
      const DeadlineAnswer nodes = NodesForDeadline(larger, options_.tokens, deadline);
      answer_.text += "\n" + ToText(nodes, request_, deadline);
      answer_.json["deadline"] = ToJsonValue(nodes);
    }
    answer_.json.update(Finish(result.recommended));
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
    if (options_.tokens > 0) {
      const TrainingNeeds needs = NeedsOf(schedule, options_.tokens / static_cast<double>(subject_.model.sequence));
      answer_.text += fmt::format("{:.4g} tokens take {:.2f} days and {:.0f} device-hours, of steps alone\n",
                                  options_.tokens, needs.days, needs.device_hours);
      answer_.json["training"] = {{"days", needs.days}, {"device_hours", needs.device_hours}};
    }
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
  bool every_recipe_;
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

namespace {

// What the stack is not known to do with these options.
void RequireKnown(const PlanSubject& subject, const PlanOptions& options) {
  RequireKnownOf(subject, options, PricesEveryRecipe(subject, ResolvedFor(subject.stack, subject.cluster, options)));
}

}  // namespace

RunRow PlanCase(const PlanSubject& subject, const PlanOptions& options) {
  RequireConsistent(options);
  RequireReadBy(options, CaseQueryOf(options));
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
    RequireTrainable(subject.cluster);
  }
  RequireReadBy(options, subject.compared.empty() ? QueryOf(options) : PlanQuery::kCompare);
  RequireKnown(subject, options);
  return AnswerBuilder(subject, options).Take();
}

}  // namespace trireme
