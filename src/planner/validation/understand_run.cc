#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "planner/validation/measured_runs.h"
#include "planner/validation/run_model.h"

namespace trireme {
namespace {

bool Holds(const std::vector<std::string>& list, const std::string& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// The cluster whose labels name the run's machine; -1 when none does.
int FindCluster(const MeasuredRun& run, const PlannerFiles& files) {
  for (std::size_t i = 0; i < files.clusters.size(); ++i) {
    const Cluster& cluster = files.clusters[i];
    const bool node = static_cast<int>(i) < files.known_clusters || !run.gpus_per_node ||
                      *run.gpus_per_node == cluster.devices_per_node;
    if (node && Holds(cluster.runs.accelerators, run.accelerator) &&
        (cluster.name == run.cluster || Holds(cluster.runs.clusters, run.cluster))) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

// "a100-40g" and "A100-SXM4" are of one chip.
bool SameChip(const std::string& a, const std::string& b) {
  const auto chip = [](std::string label) {
    label.erase(std::min(label.find_first_of("-_ "), label.size()));
    std::transform(label.begin(), label.end(), label.begin(), [](unsigned char c) { return std::tolower(c); });
    return label;
  };
  return !a.empty() && chip(a) == chip(b);
}

// The closest machine: of the very accelerator or else its chip, claimed by no site, with as many devices per node.
const Cluster* ClosestCluster(const MeasuredRun& run, const PlannerFiles& files) {
  const Cluster* closest = nullptr;
  int best = -1;
  for (int i = 0; i < files.known_clusters; ++i) {
    const Cluster& cluster = files.clusters[static_cast<std::size_t>(i)];
    const int open = cluster.runs.clusters.empty() ? 2 : 0;
    const int node = run.gpus_per_node && *run.gpus_per_node == cluster.devices_per_node ? 1 : 0;
    const bool accelerator = Holds(cluster.runs.accelerators, run.accelerator);
    const bool chip = std::any_of(cluster.runs.accelerators.begin(), cluster.runs.accelerators.end(),
                                  [&](const std::string& label) { return SameChip(label, run.accelerator); });
    const int score = (accelerator ? 4 : 0) + open + node;
    if (chip && score > best) {
      closest = &cluster;
      best = score;
    }
  }
  return closest;
}

// Programs that tables name and no stack file does, by what they resemble: a part of the name decides.
struct SimilarSystem {
  const char* part;
  const char* system;
};
constexpr SimilarSystem kSimilarSystems[] = {
    {"deepspeed", "megatron-ds-3d"},
    {"megatron-ds", "megatron-ds-3d"},
    {"neox", "megatron-ds-3d"},
    {"megatron", "megatron-core"},
    {"nemo", "nemo"},
    {"mlperf", "mlperf"},
    {"bridge", "megatron-bridge"},
    {"maxtext", "maxtext"},
    {"jax", "maxtext"},
    {"titan", "torchtitan"},
    {"foundry", "llm-foundry"},
    {"fsdp", "llm-foundry"},
    {"composer", "llm-foundry"},
    {"nanotron", "nanotron"},
    {"intern", "internevo"},
};

// The system whose stack stands for one that no file names: a relative by name, or else by how it cuts the model.
std::string NearestSystem(const MeasuredRun& run) {
  for (const SimilarSystem& similar : kSimilarSystems) {
    if (run.system.find(similar.part) != std::string::npos) {
      return similar.system;
    }
  }
  return run.zero.value_or(0) >= 3 ? "llm-foundry" : "megatron-core";
}

// The stack whose labels fit best: system, then accelerator, then cluster.
int FindStack(const MeasuredRun& run, const std::string& system, const PlannerFiles& files) {
  int best = -1;
  int best_score = 0;
  for (std::size_t i = 0; i < files.stacks.size(); ++i) {
    const SoftwareStack& stack = files.stacks[i];
    if (!Holds(stack.systems, system)) {
      continue;
    }
    const bool source = std::any_of(stack.run_sources.begin(), stack.run_sources.end(), [&](const std::string& part) {
      return run.source.find(part) != std::string::npos || run.system.find(part) != std::string::npos;
    });
    if (!stack.run_sources.empty() && !source) {
      continue;
    }
    // A label that names the run counts more than one that leaves it open; one that names others does not count.
    const int accelerator = Holds(stack.accelerators, run.accelerator) ? 4 : (stack.accelerators.empty() ? 2 : 0);
    const int cluster = Holds(stack.run_clusters, run.cluster) ? 4 : (stack.run_clusters.empty() ? 1 : 0);
    const int score = 1 + accelerator + cluster + (source ? 16 : 0);
    if (score > best_score) {
      best = static_cast<int>(i);
      best_score = score;
    }
  }
  return best;
}

struct Needed {
  const char* name;
  const std::optional<double>& value;
};

std::string Missing(const MeasuredRun& run) {
  const Needed needed[] = {{"layers", run.layers}, {"hidden", run.hidden}, {"heads", run.heads}, {"seq", run.sequence},
                           {"tp", run.tensor},     {"pp", run.pipeline},   {"dp", run.data}};
  std::string names;
  for (const Needed& one : needed) {
    if (!one.value) {
      names += (names.empty() ? "" : ", ") + std::string(one.name);
    }
  }
  return names.empty() ? "" : "not given: " + names;
}

// Fills in what follows from the rest: the data degree from the devices, the micro batch from the accumulation.
MeasuredRun Derived(MeasuredRun run) {
  const auto divide = [](double value, double by) -> std::optional<double> {
    const double quotient = by > 0 ? value / by : 0;
    return quotient >= 1 && quotient == std::floor(quotient) ? std::optional<double>(quotient) : std::nullopt;
  };
  if (!run.data && run.gpus && run.tensor && run.pipeline) {
    run.data = divide(*run.gpus, *run.tensor * *run.pipeline * run.context.value_or(1));
  }
  if (!run.micro_batch && run.global_batch && run.data && run.accumulation) {
    run.micro_batch = divide(*run.global_batch, *run.data * *run.accumulation);
  }
  if (!run.micro_batch) {
    run.micro_batch = 1;
  }
  return run;
}

std::int64_t Whole(const std::optional<double>& value, std::int64_t fallback) {
  return value ? static_cast<std::int64_t>(std::llround(std::min(*value, 1e12))) : fallback;
}

int Degree(const std::optional<double>& value) {
  const std::int64_t whole = Whole(value, 1);
  Require(whole >= 1 && whole <= 1'000'000, "a degree of {} is out of range", whole);
  return static_cast<int>(whole);
}

Recompute RecomputeOf(const MeasuredRun& run, const SoftwareStack& stack) {
  if (run.recompute.empty()) {
    return FromWord<Recompute>("recompute", stack.assumed_recompute);
  }
  if (run.recompute == "0" || run.recompute == "1") {
    return run.recompute == "1" ? Recompute::kFull : Recompute::kNone;
  }
  return FromWord<Recompute>("recompute", run.recompute);
}

// How the layers lie on the stages where they do not divide: embedding and head count as layers where that divides.
std::string PartitionOf(const MeasuredRun& run, const ParallelLayout& layout, std::int64_t layers,
                        const SoftwareStack& stack) {
  if (run.partition == "transformer+embedding" || run.partition == "balanced") {
    return "balanced";
  }
  if (run.partition.empty() && !stack.assumed_partition.empty()) {
    return stack.assumed_partition;
  }
  const int stages = layout.virtual_stages();
  return layers % stages != 0 && (layers + 2) % stages == 0 ? "balanced" : "uniform";
}

ParallelLayout LayoutOf(const MeasuredRun& run, const SoftwareStack& stack) {
  ParallelLayout layout;
  layout.tensor = Degree(run.tensor);
  layout.context = run.context && *run.context > 1 ? Degree(run.context) : 1;
  layout.pipeline = Degree(run.pipeline);
  layout.data = Degree(run.data);
  layout.micro_batch = Degree(run.micro_batch);
  if (run.experts && *run.experts > 1) {
    layout.expert = Degree(run.expert ? run.expert : std::optional<double>(1));
    layout.expert_tensor = run.expert_tensor ? Degree(run.expert_tensor) : stack.assumed_expert_tensor;
    if (!run.expert_tensor && layout.expert_replicas() == 0) {
      layout.expert_tensor = 1;
    }
  }
  const bool shards_all = run.system == "fsdp";
  layout.zero = static_cast<int>(std::clamp<std::int64_t>(Whole(run.zero, shards_all ? 3 : stack.assumed_zero), 0, 3));
  if (run.chunks && *run.chunks > 1 && layout.pipeline > 1) {
    layout.schedule = "interleaved";
    layout.chunks = Degree(run.chunks);
  }
  layout.sequence_parallel =
      layout.tensor > 1 && (run.sequence_parallel ? *run.sequence_parallel != 0 : stack.assumed_sequence_parallel);
  layout.recompute = RecomputeOf(run, stack);
  if (run.offload == "full" || run.offload == "optimizer") {
    layout.offload = FromWord<Offload>("offload", run.offload);
  }
  return layout;
}

// Tables have no column for ZeRO within groups of ranks; notes say "sharded over 8 ranks" or "FSDP over 128".
int ShardRanksOf(const MeasuredRun& run) {
  for (const std::string_view words : {"sharded over ", "FSDP over "}) {
    const std::size_t at = run.note.find(words);
    if (at == std::string::npos) {
      continue;
    }
    const char* first = run.note.data() + at + words.size();
    int ranks = 0;
    const auto [stop, error] = std::from_chars(first, run.note.data() + run.note.size(), ranks);
    if (error == std::errc() && ranks >= 1) {
      return ranks;
    }
  }
  return 0;
}

// Chunks of an interleaved pipeline where the table does not tell and the program interleaves by habit.
int AssumedChunks(const ParallelLayout& layout, const ModelConfig& model, const SoftwareStack& stack) {
  if (stack.assumed_chunk_layers == 0 || layout.pipeline == 1 || layout.chunks > 1) {
    return layout.chunks;
  }
  for (std::int64_t own = stack.assumed_chunk_layers; own >= 1; --own) {
    for (const std::int64_t layers : {model.layers, model.layers + 2}) {
      if (layers % (own * layout.pipeline) == 0 && layers > own * layout.pipeline) {
        return static_cast<int>(layers / (own * layout.pipeline));
      }
    }
  }
  return 1;
}

// The type of a run that does not say: what its program takes where the chip multiplies in it.
std::string AssumedType(const Cluster& cluster, const SoftwareStack& stack) {
  const ProductFormat format = ParseProductFormat(stack.assumed_dtype);
  const bool multiplies = format != ProductFormat::kNative &&
                          cluster.device.Peak(format, DType::kBFloat16) > cluster.device.Peak(DType::kBFloat16);
  return std::string(multiplies ? std::string_view(stack.assumed_dtype) : Name(DType::kBFloat16));
}

void Fill(const MeasuredRun& run, const Cluster& cluster, const SoftwareStack& stack, RunPoint& point) {
  point.config.model = ModelOfRun(run);
  ParallelLayout& layout = point.config.layout;
  layout = LayoutOf(run, stack);
  SpreadKeyHeads(layout.tensor, point.config.model);
  if (!run.chunks) {
    layout.chunks = AssumedChunks(layout, point.config.model, stack);
    layout.schedule = layout.chunks > 1 ? "interleaved" : "1f1b";
  }
  layout.partition = PartitionOf(run, layout, point.config.model.layers, stack);
  Require(static_cast<double>(layout.tensor) * layout.context * layout.pipeline * layout.data <= 1e8,
          "tp {} x cp {} x pp {} x dp {} is more ranks than there are", layout.tensor, layout.context, layout.pipeline,
          layout.data);
  const std::int64_t replica = static_cast<std::int64_t>(layout.micro_batch) * layout.data;
  point.config.batch.global = Whole(run.global_batch, replica * std::max<std::int64_t>(Whole(run.accumulation, 1), 1));
  Require(point.config.batch.global >= replica && point.config.batch.global % replica == 0,
          "global batch {} is no multiple of micro batch {} x data {}", point.config.batch.global, layout.micro_batch,
          layout.data);
  Require(!run.gpus || *run.gpus == layout.ranks(), "tp {} x cp {} x pp {} x dp {} = {} ranks, but {} gpus",
          layout.tensor, layout.context, layout.pipeline, layout.data, layout.ranks(), Whole(run.gpus, 0));
  if (layout.chunks > 1 && (point.config.batch.global / replica) % layout.pipeline != 0) {
    layout.chunks = 1;  // this count of micro batches cannot be interleaved by the schedule that we play
    layout.schedule = "1f1b";
  }
  Require(layout.virtual_stages() <= point.config.model.layers + 2, "{} stages for {} layers", layout.virtual_stages(),
          point.config.model.layers);
  RequireDivisible(point.config.model, layout);
  point.config.train.dtype = run.dtype.empty() ? AssumedType(cluster, stack) : run.dtype;
  DTypeOf(point.config);  // an Error where there is no such type
  point.config.train.attention =
      (run.flash ? *run.flash != 0 : stack.time.flash) ? AttentionEngine::kFlash : AttentionEngine::kPlain;
  point.power_sgd = run.compression == "powersgd";
  layout.shard_ranks = ShardRanksOf(run);
  point.factored_moments = run.optimizer == Name(OptimizerKind::kAdafactor);
  point.fused_optimizer = !point.factored_moments;
}

}  // namespace

PlannerFiles LoadPlannerFiles(const std::string& clusters_folder, const std::string& stacks_folder) {
  PlannerFiles files{.clusters = LoadClusters(clusters_folder), .stacks = LoadStacks(stacks_folder)};
  files.known_clusters = static_cast<int>(files.clusters.size());
  return files;
}

PlannerFiles WithAssumedClusters(PlannerFiles files, const std::vector<MeasuredRun>& runs) {
  constexpr double kMostDevicesPerNode = 1000;
  for (const MeasuredRun& run : runs) {
    const Cluster* closest = FindCluster(run, files) < 0 ? ClosestCluster(run, files) : nullptr;
    if (closest == nullptr) {
      continue;
    }
    Cluster assumed = *closest;
    assumed.site = "assumed for " + run.cluster;
    assumed.runs = {.clusters = {run.cluster}, .accelerators = {run.accelerator}};
    if (run.gpus_per_node && *run.gpus_per_node >= 1 && *run.gpus_per_node <= kMostDevicesPerNode) {
      assumed.devices_per_node = static_cast<int>(*run.gpus_per_node);
    }
    files.clusters.push_back(std::move(assumed));
  }
  return files;
}

PlanPoint RunPoint::PointUnder(const Cluster& on, const StackState& state) const {
  return {.cluster = on,
          .stack = state,
          .config = config,
          .power_sgd = power_sgd,
          .fused_optimizer = fused_optimizer,
          .factored_moments = factored_moments};
}

Understood Understand(const MeasuredRun& run, const PlannerFiles& files) {
  const MeasuredRun whole = Derived(run);
  const std::string missing = Missing(whole);
  if (!missing.empty()) {
    return {.reason = missing};
  }
  RunPoint point;
  point.run = &run;
  point.cluster = FindCluster(run, files);
  point.assumed_cluster = point.cluster >= files.known_clusters;
  if (point.cluster < 0) {
    return {.reason = fmt::format("no cluster file for '{}' or accelerator '{}'", run.cluster, run.accelerator)};
  }
  point.stack = FindStack(run, run.system, files);
  if (point.stack < 0) {
    point.stack = FindStack(run, NearestSystem(run), files);
    point.assumed_stack = true;
  }
  if (point.stack < 0) {
    return {.reason = fmt::format("no stack file for system '{}'", run.system)};
  }
  try {
    Fill(whole, files.clusters[static_cast<std::size_t>(point.cluster)],
         files.stacks[static_cast<std::size_t>(point.stack)], point);
  } catch (const Error& error) {
    return {.reason = error.what()};
  }
  return {.point = std::move(point), .reason = ""};
}

}  // namespace trireme
