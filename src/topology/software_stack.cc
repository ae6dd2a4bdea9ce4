#include "topology/software_stack.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/units.h"
#include "topology/settings.h"

namespace trireme {
namespace {

Efficiencies ReadEfficiencies(const Settings& file, const std::string& table, const Efficiencies& base) {
  Efficiencies read = base;
  for (const EfficiencyField& field : EfficiencyFields()) {
    read.*field.member = file.Positive(table + "." + field.name, base.*field.member);
  }
  return read;
}

// Numbers of [time], which revisions may replace.
struct TimeNumber {
  const char* name;
  double TimeTraits::*member;
  double unit;
};
constexpr TimeNumber kTimeNumbers[] = {
    {"outside_bytes", &TimeTraits::outside_bytes, 1},
    {"inside_bytes", &TimeTraits::inside_bytes, 1},
    {"backward_bytes", &TimeTraits::backward_bytes, 1},
    {"selective_products", &TimeTraits::selective_products, 1},
    {"selective_memory", &TimeTraits::selective_memory, 1},
    {"collective_us", &TimeTraits::collective_seconds, 1e-6},
    {"logit_bytes", &TimeTraits::logit_bytes, 1},
    {"wave_weight", &TimeTraits::wave_weight, 1},
    {"tensor_overlap", &TimeTraits::tensor_overlap, 1},
    {"cast_bytes", &TimeTraits::cast_bytes, 1},
    {"cast_bytes_mxfp8", &TimeTraits::mx_cast_bytes, 1},
    {"cast_bytes_nvfp4", &TimeTraits::fp4_cast_bytes, 1},
    {"gradient_bytes", &TimeTraits::gradient_bytes, 1},
    {"parameter_bytes", &TimeTraits::parameter_bytes, 1},
    {"gradient_bytes_bf16", &TimeTraits::gradient_bytes_bf16, 1},
    {"accumulate_bytes", &TimeTraits::accumulate_bytes, 1},
    {"optimizer_bytes", &TimeTraits::optimizer_bytes, 1},
    {"data_overlap", &TimeTraits::data_overlap, 1},
    {"bucket_mb", &TimeTraits::bucket_bytes, 1e6},
    {"shard_kernels", &TimeTraits::shard_kernels, 1},
    {"shard_copy_bytes", &TimeTraits::shard_copy_bytes, 1},
    {"layer_tensors", &TimeTraits::layer_tensors, 1},
    {"expert_streams", &TimeTraits::expert_streams, 1},
    {"expert_row_bytes", &TimeTraits::expert_row_bytes, 1},
    {"expert_layer_us", &TimeTraits::expert_layer_seconds, 1e-6},
    {"expert_product_us", &TimeTraits::expert_product_seconds, 1e-6},
    {"expert_variation", &TimeTraits::expert_variation, 1},
    {"expert_overlap", &TimeTraits::expert_overlap, 1},
    {"gather_overlap", &TimeTraits::shard_overlap, 1},
    {"power_sgd_seconds", &TimeTraits::power_sgd_seconds, 1},
    {"power_sgd_share", &TimeTraits::power_sgd_share, 1},
};

TimeTraits ReadTime(const Settings& file) {
  TimeTraits time;
  const std::string attention = file.Text("attention.kernel", "flash");
  Require(attention == "flash" || attention == "flash2" || attention == "flash1" || attention == "unfused",
          "{}: attention.kernel = '{}' must be flash, flash2, flash1 or unfused", file.origin(), attention);
  constexpr double kFirstGeneration = 0.62;
  time.flash = attention != "unfused";
  time.flash_old = attention == "flash2" || attention == "flash1";
  time.flash_share = attention == "flash1" ? kFirstGeneration : 1;
  time.head_multiple = file.CountOr("attention.head_multiple", time.head_multiple);
  time.score_bytes = file.Number("attention.score_bytes", time.score_bytes);
  time.softmax_multiple = file.CountOr("attention.softmax_multiple", 0);
  time.selective_attention = file.Flag("time.selective_attention", time.selective_attention);
  time.broadcasts_shards = file.Flag("time.broadcasts_shards", time.broadcasts_shards);
  time.vocabulary_multiple = file.CountOr("time.vocabulary_multiple", time.vocabulary_multiple);
  time.products_in_parts = file.Flag("time.products_in_parts", time.products_in_parts);
  time.recompute_whole = file.Flag("time.recompute_whole", time.recompute_whole);
  time.scatter_messages = file.Flag("time.scatter_messages", time.scatter_messages);
  time.gather_again = file.Flag("time.gather_again", time.gather_again);
  time.sends_tokens_once = file.Flag("time.sends_tokens_once", time.sends_tokens_once);
  time.host_optimizer = file.Flag("time.host_optimizer", time.host_optimizer);
  time.nvme_offload = file.Flag("time.nvme_offload", time.nvme_offload);
  for (const TimeNumber& number : kTimeNumbers) {
    time.*number.member =
        file.Number(std::string("time.") + number.name, time.*number.member / number.unit) * number.unit;
  }
  return time;
}

MemoryTraits ReadMemoryFields(const Settings& file, const std::string& prefix, const MemoryTraits& base) {
  MemoryTraits read = base;
  for (const MemoryField& field : MemoryFields()) {
    const double unit = field.member == &MemoryTraits::fixed ? kGibi : 1;
    read.*field.member = file.Positive(prefix + field.name, base.*field.member / unit) * unit;
  }
  return read;
}

MemoryTraits ReadMemory(const Settings& file) {
  MemoryTraits memory = ReadMemoryFields(file, "memory.", {});
  memory.accumulation = file.Number("memory.accumulation_bytes", memory.accumulation);
  memory.mask_bytes = file.Number("memory.mask_bytes", memory.mask_bytes);
  memory.gated_bytes = file.Number("memory.gated_bytes", memory.gated_bytes);
  memory.float8_inputs = file.Flag("memory.float8_inputs", memory.float8_inputs);
  memory.late_gradients = file.Number("memory.late_gradients", memory.late_gradients);
  memory.reduced_copies = file.Number("memory.reduced_copies", memory.reduced_copies);
  memory.ddp_buckets = file.Number("memory.ddp_buckets", memory.ddp_buckets);
  memory.selective_share = file.Number("memory.selective_share", memory.selective_share);
  const std::string reported = file.Text("memory.reported", "device");
  Require(reported == "device" || reported == "reserved" || reported == "allocated",
          "{}: memory.reported = '{}' must be device, reserved or allocated", file.origin(), reported);
  memory.reported = reported == "device"     ? MemoryTraits::Reported::kDevice
                    : reported == "reserved" ? MemoryTraits::Reported::kReserved
                                             : MemoryTraits::Reported::kAllocated;
  memory.host_buffers = file.Positive("memory.host_buffers", memory.host_buffers);
  memory.pinned = file.Number("memory.pinned_bytes", memory.pinned);
  memory.host_process = file.Number("memory.host_process_gib", 0) * kGibi;
  memory.layer_factor = file.Number("memory.layer_factor", memory.layer_factor);
  memory.activations_on_host = file.Flag("memory.activations_on_host", memory.activations_on_host);
  memory.first_stage_reported = file.Flag("memory.first_stage_reported", memory.first_stage_reported);
  return memory;
}

std::vector<std::string> ListOr(const Settings& file, const std::string& key,
                                const std::vector<std::string>& fallback) {
  std::vector<std::string> read = file.Texts(key);
  return read.empty() ? fallback : read;
}

StackFeatures ReadFeatures(const Settings& file) {
  StackFeatures features;
  const std::vector<double> zero = file.Numbers("features.zero");
  if (!zero.empty()) {
    features.zero.clear();
    for (const double stage : zero) {
      Require(stage >= 0 && stage <= 3 && stage == static_cast<int>(stage), "{}: features.zero holds {}, not 0 to 3",
              file.origin(), stage);
      features.zero.push_back(static_cast<int>(stage));
    }
  }
  features.schedules = ListOr(file, "features.schedules", features.schedules);
  features.recompute = ListOr(file, "features.recompute", features.recompute);
  features.offload = ListOr(file, "features.offload", features.offload);
  features.partitions = ListOr(file, "features.partitions", features.partitions);
  features.tensor = file.Flag("features.tensor", features.tensor);
  features.pipeline = file.Flag("features.pipeline", features.pipeline);
  features.context = file.Flag("features.context", features.context);
  features.sequence_parallel = file.Flag("features.sequence_parallel", features.sequence_parallel);
  features.experts = file.Flag("features.experts", features.experts);
  features.most_chunks = file.CountOr("features.most_chunks", 1);
  return features;
}

StackPolicy ReadPolicy(const Settings& file) {
  return {.counted_costs = file.Flag("policy.counted_costs", false),
          .strict_partition = file.Flag("policy.strict_partition", false),
          .any_schedule = file.Flag("policy.any_schedule", false),
          .staged_offload = file.Flag("policy.staged_offload", false),
          .bf16_moments = file.Flag("policy.bf16_moments", false),
          .measured_rates = file.Flag("policy.measured_rates", false),
          .inline_on_host = file.Flag("policy.inline_on_host", false)};
}

StackRevision ReadRevision(const Settings& file, const std::string& table, const SoftwareStack& stack) {
  StackRevision revision{.cluster = file.Text(table + ".cluster", ""),
                         .since = file.Text(table + ".since", ""),
                         .until = file.Text(table + ".until", ""),
                         .note = file.Text(table + ".note", ""),
                         .slow = file.Flag(table + ".slow", false),
                         .blocking = file.Flag(table + ".blocking", false),
                         .accumulates = file.Flag(table + ".accumulates", true),
                         .reason = file.Text(table + ".reason", "")};
  for (const TimeNumber& number : kTimeNumbers) {
    const std::string key = table + ".time." + number.name;
    if (file.Has(key)) {
      revision.time.push_back({number.member, file.Number(key) * number.unit});
    }
  }
  for (const EfficiencyField& field : EfficiencyFields()) {
    const std::string key = table + ".efficiency." + field.name;
    if (file.Has(key)) {
      revision.efficiencies.push_back({field.member, file.Positive(key) / stack.defaults.*field.member});
    }
  }
  return revision;
}

SoftwareStack ReadStack(const Settings& file) {
  SoftwareStack stack;
  stack.name = file.Text("name");
  stack.description = file.Text("description", "");
  stack.policy = ReadPolicy(file);
  stack.systems = file.Texts("runs.systems");
  stack.accelerators = file.Texts("runs.accelerators");
  stack.run_clusters = file.Texts("runs.clusters");
  stack.run_sources = file.Texts("runs.sources");
  stack.assumed_dtype = file.Text("runs.dtype", "");
  stack.assumed_recompute = file.Text("runs.recompute", "none");
  stack.assumed_partition = file.Text("runs.partition", "");
  stack.assumed_zero = std::clamp(file.CountOr("runs.zero", 0), 0, 3);
  stack.assumed_chunk_layers = file.CountOr("runs.chunk_layers", 0);
  stack.assumed_expert_tensor = file.CountOr("runs.expert_tensor", 0);
  stack.assumed_sequence_parallel = file.Flag("runs.sequence_parallel", false);
  stack.features = ReadFeatures(file);
  stack.time = ReadTime(file);
  stack.memory = ReadMemory(file);
  stack.defaults = ReadEfficiencies(file, "efficiency", {});
  stack.default_spread = file.Positive("efficiency.spread", 0.25);
  stack.default_paired_spread = file.Positive("efficiency.paired_spread", 0.04);
  for (int i = 0; i < file.Entries("calibration"); ++i) {
    const std::string table = "calibration[" + std::to_string(i) + "]";
    stack.calibrations.push_back({.cluster = file.Text(table + ".cluster"),
                                  .efficiencies = ReadEfficiencies(file, table, stack.defaults),
                                  .memory = ReadMemoryFields(file, table + ".memory_", stack.memory),
                                  .spread = file.Positive(table + ".spread", stack.default_spread),
                                  .memory_spread = file.Positive(table + ".memory_spread", 0.15),
                                  .paired_spread = file.Positive(table + ".paired_spread", stack.default_paired_spread),
                                  .runs = file.CountOr(table + ".runs", 0)});
  }
  for (int i = 0; i < file.Entries("revision"); ++i) {
    stack.revisions.push_back(ReadRevision(file, "revision[" + std::to_string(i) + "]", stack));
  }
  file.RequireAllKnown();
  return stack;
}

}  // namespace

const std::vector<EfficiencyField>& EfficiencyFields() {
  static const std::vector<EfficiencyField> kFields = {
      {"matmul", &Efficiencies::matmul, 0.07},
      {"attention", &Efficiencies::attention, 0.5},
      {"attention_unaligned", &Efficiencies::attention_unaligned, 0.7},
      {"flash", &Efficiencies::flash, 0.15},
      {"memory", &Efficiencies::memory, 0.12},
      {"tensor_link", &Efficiencies::tensor_link, 0.5},
      {"tensor_node_link", &Efficiencies::tensor_node_link, 0.5},
      {"data_device_link", &Efficiencies::data_device_link, 0.4},
      {"data_link", &Efficiencies::data_link, 0.6},
      {"message_link", &Efficiencies::message_link, 0.5},
      {"host_link", &Efficiencies::host_link, 0.3},
      {"host_memory", &Efficiencies::host_memory, 0.7},
      {"layer_seconds", &Efficiencies::layer_seconds, 1.0},
      {"stall_seconds", &Efficiencies::stall_seconds, 2.5},
      {"node_latency", &Efficiencies::node_latency, 1.0},
      {"step_seconds", &Efficiencies::step_seconds, 1.0},
      {"slowdown", &Efficiencies::slowdown, 0.05},
  };
  return kFields;
}

const std::vector<MemoryField>& MemoryFields() {
  static const std::vector<MemoryField> kFields = {
      {"fixed_gib", &MemoryTraits::fixed, 0.4},         {"unsharded_bytes", &MemoryTraits::unsharded, 0.25},
      {"sharded_bytes", &MemoryTraits::sharded, 0.15},  {"activation_factor", &MemoryTraits::activation_factor, 0.12},
      {"logit_bytes", &MemoryTraits::logit_bytes, 0.3},
  };
  return kFields;
}

namespace {

void Take(const StackCalibration& calibration, StackState& state) {
  state.efficiencies = calibration.efficiencies;
  state.memory = calibration.memory;
  state.spread = calibration.spread;
  state.memory_spread = calibration.memory_spread;
  state.paired_spread = calibration.paired_spread;
  state.calibrated = true;
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return text;
}

bool HoldsFor(const StackRevision& revision, const Cluster& cluster, const StackUse& use) {
  const bool here = revision.cluster.empty() || revision.cluster == cluster.site;
  const bool kind = revision.note.empty() || Lower(use.note).find(Lower(revision.note)) != std::string::npos;
  // Without a date a run is of today: after every revision that ends.
  const bool then = use.date.empty() ? revision.until.empty()
                                     : (revision.since.empty() || use.date >= revision.since) &&
                                           (revision.until.empty() || use.date < revision.until);
  return here && kind && then;
}

void Take(const StackRevision& revision, StackState& state) {
  state.slowed = state.slowed || revision.slow;
  state.time.blocking = state.time.blocking || revision.blocking;
  if (!revision.accumulates) {
    state.memory.accumulation = 0;
    state.time.gradient_bytes_bf16 = 0;
    state.time.accumulate_bytes = 0;
  }
  for (const ChangedTime& changed : revision.time) {
    state.time.*changed.member = changed.value;
  }
  for (const ChangedEfficiency& changed : revision.efficiencies) {
    state.efficiencies.*changed.member *= changed.factor;
  }
}

}  // namespace

StackState Resolve(const SoftwareStack& stack, const Cluster& cluster, const StackUse& use,
                   const StackCalibration* calibration) {
  StackState state{.efficiencies = stack.defaults,
                   .time = stack.time,
                   .memory = stack.memory,
                   .policy = stack.policy,
                   .spread = stack.default_spread,
                   .paired_spread = stack.default_paired_spread};
  for (const StackCalibration& own : stack.calibrations) {
    if (own.cluster == cluster.site) {
      Take(own, state);
    }
  }
  if (stack.policy.inline_on_host && cluster.device.is_host) {
    state.time.data_overlap = 0;  // a CPU does collectives where they are asked for
    state.time.shard_overlap = 0;
  }
  if (stack.policy.measured_rates && cluster.measured) {
    state.spread = cluster.measured->spread;
    state.calibrated = true;
  }
  if (calibration != nullptr) {
    Take(*calibration, state);
  }
  for (const StackRevision& revision : stack.revisions) {
    if (HoldsFor(revision, cluster, use)) {
      Take(revision, state);
    }
  }
  return state;
}

SoftwareStack ParseStack(const std::string& text, const std::string& origin) {
  return ReadStack(Settings::FromText(text, origin));
}

std::string ToToml(const StackCalibration& calibration) {
  std::string text = fmt::format(
      "[[calibration]]\ncluster = \"{}\"\nruns = {}\nspread = {:.3f}\nmemory_spread = {:.3f}\n"
      "paired_spread = {:.3f}\n",
      calibration.cluster, calibration.runs, calibration.spread, calibration.memory_spread, calibration.paired_spread);
  for (const EfficiencyField& field : EfficiencyFields()) {
    text += fmt::format("{} = {:.4g}\n", field.name, calibration.efficiencies.*field.member);
  }
  for (const MemoryField& field : MemoryFields()) {
    const double unit = field.member == &MemoryTraits::fixed ? kGibi : 1;
    text += fmt::format("memory_{} = {:.4g}\n", field.name, calibration.memory.*field.member / unit);
  }
  return text;
}

}  // namespace trireme
