#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/error.h"
#include "model/float8_products.h"
#include "model/stage_partition.h"
#include "run/offered.h"
#include "run/recipe_keys.h"
#include "run/run_config.h"
#include "run/stages.h"
#include "run/step_list.h"
#include "schedule/schedule.h"
#include "topology/nearest.h"

namespace trireme {
namespace {

constexpr std::int64_t kMostRanks = 1 << 20;

void RequireRanks(const ParallelLayout& layout, int ranks) {
  const std::int64_t within = static_cast<std::int64_t>(layout.tensor) * layout.context;
  // Each factor is at most 2^20: three of them fit 63 bits.
  const std::int64_t replica = within <= kMostRanks ? within * layout.pipeline : within;
  const std::int64_t product = replica <= kMostRanks ? replica * layout.data : replica;
  const std::string factors =
      fmt::format("layout.tensor = {} x layout.context = {} x layout.pipeline = {} x layout.data = {}", layout.tensor,
                  layout.context, layout.pipeline, layout.data);
  Require(product <= kMostRanks, "{} is more than {} ranks", factors, kMostRanks);
  if (ranks <= 0 || product == ranks) {
    return;
  }
  if (ranks % replica == 0) {
    Fail("{} = {} ranks, but the run has {}; layout.data = {} would fit", factors, product, ranks, ranks / replica);
  }
  Fail(
      "{} = {} ranks, but the run has {}; with these tensor, context and pipeline degrees the nearest that work are "
      "{} "
      "ranks",
      factors, product, ranks, NearestMultiples(ranks, replica));
}

void RequireOffered(const RunConfig& config) {
  if (const std::optional<NotOffered> refusal = FindNotOffered(config)) {
    Fail("{}", refusal->message);
  }
  Require(config.train.min_loss_scale <= config.train.initial_loss_scale,
          "train.min_loss_scale = {} is above train.initial_loss_scale = {}, where a dynamic loss scale begins",
          config.train.min_loss_scale, config.train.initial_loss_scale);
  const int shard_ranks = config.layout.shard_ranks;
  const int replicas = config.layout.replicas();
  Require(shard_ranks == 0 || replicas % shard_ranks == 0,
          "layout.shard_ranks = {} does not divide layout.data = {} x layout.context = {}; the nearest that works is "
          "{}",
          shard_ranks, config.layout.data, config.layout.context, NearestDivisors(replicas, shard_ranks));
  Require(shard_ranks == 0 || ZeroShards(config.layout.zero).optimizer,
          "layout.shard_ranks = {} says over how many ranks ZeRO shards, but layout.zero is 0; set layout.zero = 1, 2 "
          "or 3, or layout.shard_ranks = 0",
          shard_ranks);
}

// Matrices in fp8 have extents that are multiples of 16 on every rank.
void RequireFloat8(const ModelConfig& model, const ParallelLayout& layout) {
  static constexpr std::int64_t kUnit = 16;
  const std::int64_t tensor = layout.tensor;
  const std::int64_t kv_heads = model.kv_heads == 0 ? model.heads : model.kv_heads;
  const auto require = [](const char* what, std::int64_t extent) {
    Require(extent % kUnit == 0, "train.dtype = 'fp8': {} is {}, which is no multiple of {}; the nearest is {}", what,
            extent, kUnit, std::max(extent / kUnit, std::int64_t{1}) * kUnit);
  };
  require("model.hidden", model.hidden);
  require("the width of a rank's attention", model.heads / tensor * model.head_size());
  require("the width of a rank's keys", kv_heads / tensor * model.head_size());
  if (model.SparseLayers() < model.layers) {
    require("model.ffn / layout.tensor", model.ffn / tensor);
  }
  require("model.shared_ffn / layout.tensor", model.experts.shared_ffn / tensor);
  require(layout.context > 1 ? "layout.micro_batch * model.sequence / layout.context"
                             : "layout.micro_batch * model.sequence",
          layout.micro_batch * model.sequence / layout.context);
}

void RequireRecomputedLayers(const ModelConfig& model, const ParallelLayout& layout) {
  const StagePartition partition(model, layout);
  std::int64_t most = 0;
  for (int stage = 0; stage < partition.virtual_stages(); ++stage) {
    // Module 0 is the embedding, the one after the blocks the head.
    const ModuleRange& range = partition.Range(stage);
    most = std::max(most, std::min(range.last, model.layers + 1) - std::max(range.first, std::int64_t{1}));
  }
  Require(layout.recompute_layers <= most,
          "layout.recompute_layers = {} is more than the {} blocks of the largest chunk; the nearest that work are {} "
          "or 0 (all)",
          layout.recompute_layers, most, most);
}

// Beyond this no memory holds a micro batch, and its bytes would not fit the numbers that count them.
void RequireCountable(const ModelConfig& model, const ParallelLayout& layout) {
  static constexpr double kMost = 1e15;
  const double tokens = static_cast<double>(layout.micro_batch) * static_cast<double>(model.sequence);
  const double widest = static_cast<double>(std::max(
      {model.hidden, model.ffn, model.vocabulary, model.experts.chosen * std::max(model.hidden, model.experts.ffn)}));
  const double elements = tokens * widest * static_cast<double>(model.layers);
  Require(elements <= kMost,
          "layout.micro_batch = {} x model.sequence = {} over model.layers = {} of width {} make {:.1e} numbers, more "
          "than any memory holds ({:.0e}); the most samples of a micro batch that could work is {}",
          layout.micro_batch, model.sequence, model.layers, widest, elements, kMost,
          static_cast<std::int64_t>(kMost / elements * layout.micro_batch));
}

void RequireRamp(const BatchConfig& batch) {
  if (batch.ramp_start == 0) {
    Require(batch.ramp_increment == 0 && batch.ramp_samples == 0,
            "batch.ramp_up has increment = {} and samples = {} but no start", batch.ramp_increment, batch.ramp_samples);
    return;
  }
  Require(batch.ramp_start <= batch.global,
          "batch.ramp_up.start = {} is above batch.global = {}; the most that works is {}", batch.ramp_start,
          batch.global, batch.global);
  Require(batch.ramp_increment > 0, "batch.ramp_up.increment = {} must be at least 1", batch.ramp_increment);
  Require(batch.ramp_samples > 0, "batch.ramp_up.samples = {} must be at least 1", batch.ramp_samples);
  const std::int64_t growth = batch.global - batch.ramp_start;
  Require(
      growth % batch.ramp_increment == 0,
      "batch.ramp_up.increment = {} does not divide the growth from start = {} to batch.global = {} ({}); the nearest "
      "that does is {}",
      batch.ramp_increment, batch.ramp_start, batch.global, growth, NearestDivisors(growth, batch.ramp_increment));
}

void RequireBatches(const RunConfig& config) {
  RequireRamp(config.batch);
  const ParallelLayout& layout = config.layout;
  const std::int64_t unit = static_cast<std::int64_t>(layout.micro_batch) * layout.data;
  for (const std::int64_t size : BatchSchedule(config.batch).Sizes()) {
    if (size % unit == 0) {
      continue;
    }
    const std::string which =
        size == config.batch.global
            ? fmt::format("batch.global = {}", size)
            : fmt::format("the batch of {} that batch.ramp_up (start = {}, increment = {}) comes to", size,
                          config.batch.ramp_start, config.batch.ramp_increment);
    Fail("{} is not divisible by layout.micro_batch = {} x layout.data = {} = {}; the nearest that work are {}", which,
         layout.micro_batch, layout.data, unit, NearestMultiples(size, unit));
  }
}

// Every batch size must make a schedule: a kind may ask for certain counts, a file is for one count only.
void RequireSchedules(const RunConfig& config) {
  const ParallelLayout& layout = config.layout;
  Require(layout.chunks == 1 || layout.pipeline > 1,
          "layout.chunks = {} cuts a rank's stage of a pipeline, but layout.pipeline is 1; set layout.chunks = 1 or a "
          "pipeline of 2 or more",
          layout.chunks);
  const std::vector<ScheduleKind>& kinds = ScheduleKinds();
  const auto kind =
      std::find_if(kinds.begin(), kinds.end(), [&](const ScheduleKind& one) { return one.name == layout.schedule; });
  for (const std::int64_t size : BatchSchedule(config.batch).Sizes()) {
    const int micro_batches = MicroBatches(layout, size);
    try {
      if (kind == kinds.end()) {
        MakeSchedule(layout.schedule, layout.pipeline, layout.chunks, micro_batches);
      } else {
        kind->make(layout.pipeline, layout.chunks, micro_batches);
      }
    } catch (const Error& error) {
      Fail("layout.schedule at a global batch of {} ({} micro batches of {} on each of {} data ranks): {}", size,
           micro_batches, layout.micro_batch, layout.data, error.what());
    }
  }
}

void RequireLength(const RunConfig& config) {
  Require(config.train.samples == 0 || config.train.tokens == 0,
          "train.samples = {} and train.tokens = {} both say how long the run is; keep one", config.train.samples,
          config.train.tokens);
  const OptimizerConfig& optimizer = config.optimizer;
  const bool has_end = optimizer.schedule == RateSchedule::kCosine || optimizer.schedule == RateSchedule::kLinear;
  Require(
      !has_end || optimizer.decay_samples == 0 || optimizer.warmup_samples < optimizer.decay_samples,
      "optimizer.schedule.warmup_samples = {} must be below decay_samples = {}, which counts from the start of the run",
      optimizer.warmup_samples, optimizer.decay_samples);
}

void RequireSplit(const std::string& split) {
  const char* at = split.data();
  const char* const end = at + split.size();
  double sum = 0;
  int parts = 0;
  while (true) {
    double share = 0;
    const auto [stop, error] = std::from_chars(at, end, share);
    Require(error == std::errc() && share >= 0 && share <= 1e6 && ++parts <= 3 && (stop == end || *stop == ','),
            "data.split = '{}' must be the shares of train, validation and test, such as '95,5,0'", split);
    sum += share;
    if (stop == end) {
      break;
    }
    at = stop + 1;
  }
  Require(sum > 0, "data.split = '{}' leaves nothing for any part; '95,5,0' would do", split);
}

void RequirePaced(const TrainConfig& train) {
  const bool paced = train.device == "paced";
  Require(!paced || !train.paced_cluster.empty(),
          "train.device = 'paced' needs train.paced_cluster: a cluster file, or the name of one of clusters/, such as "
          "'perlmutter'");
  Require(paced || train.paced_cluster.empty(),
          "train.paced_cluster = '{}' is for train.device = 'paced', which is '{}'; set one of them",
          train.paced_cluster, train.device);
}

}  // namespace

void Validate(const RunConfig& config, int ranks) {
  for (const RecipeKey& key : RecipeKeys()) {
    RequireSensible(config, key);
  }
  RequireOffered(config);
  RequireRanks(config.layout, ranks);
  const ModelConfig model = Completed(config.model, true);
  RequireDivisible(model, config.layout);
  RequireCountable(model, config.layout);
  ParseFloat8Products(config.train.fp8_products);
  if (config.train.dtype == "fp8") {
    RequireFloat8(model, config.layout);
  }
  RequireRecomputedLayers(model, config.layout);
  RequireBatches(config);
  RequireSchedules(config);
  RequireLength(config);
  RequirePaced(config.train);
  Require(config.log.histogram_every == 0 || config.log.tensorboard,
          "log.histogram_every = {} writes into event files: set log.tensorboard = true, or log.histogram_every = 0",
          config.log.histogram_every);
  RequireSplit(config.data.split);
  Require(
      config.data.document_masks || !config.data.document_positions,
      "data.document_positions = true begins positions anew where attention does: set data.document_masks = true too");
  for (const auto& [key, text] : {std::pair{"train.skip_steps", config.train.skip_steps},
                                  {"log.dump_steps", config.log.dump_steps},
                                  {"evaluate.steps", config.evaluate.steps}}) {
    try {
      const StepList steps(text);
    } catch (const Error& error) {
      Fail("{}: {}", key, error.what());
    }
  }
  Require(config.evaluate.tasks.empty() == (config.evaluate.every == 0 && config.evaluate.steps.empty()),
          "evaluate.tasks = '{}' with evaluate.every = {} and evaluate.steps = '{}': give files and when to score them",
          config.evaluate.tasks, config.evaluate.every, config.evaluate.steps);
  ParseStages(config.train.stages);
}

}  // namespace trireme
