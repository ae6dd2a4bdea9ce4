#include "run/offered.h"

#include <fmt/format.h>

namespace trireme {
namespace {

// What LoRA adapters do not work with.
std::optional<NotOffered> AdapterRefusal(const RunConfig& config) {
  const AdapterConfig& adapter = config.model.adapter;
  if (!adapter.any()) {
    return std::nullopt;
  }
  if (config.train.dtype == "fp8" || config.train.dtype == "fp16") {
    return NotOffered{"LoRA adapters train in fp32, tf32 or bf16",
                      fmt::format("lora.rank = {} with train.dtype = '{}': frozen weights are kept in the type of the "
                                  "run, which is fp32, tf32 "
                                  "or bf16 with adapters; the nearest is train.dtype = 'bf16'",
                                  adapter.rank, config.train.dtype)};
  }
  if (config.layout.offload != Offload::kNone) {
    return NotOffered{
        "LoRA adapters train without offloading",
        fmt::format(
            "lora.rank = {} with layout.offload = '{}': the optimizer's state of adapters is small and frozen weights "
            "have none; set layout.offload = 'none', and layout.zero = 3 where the weights do not fit",
            adapter.rank, Name(config.layout.offload))};
  }
  if (config.optimizer.powersgd_rank != 0) {
    return NotOffered{
        "LoRA adapters train without PowerSGD",
        fmt::format("lora.rank = {} with optimizer.powersgd.rank = {}: gradients of adapters are of low rank as they "
                    "are; set optimizer.powersgd.rank = 0",
                    adapter.rank, config.optimizer.powersgd_rank)};
  }
  // Every rank with a whole copy of a matrix would compute Muon's update of it. No law covers that for adapters.
  if (TraitsOf(config.optimizer.kind).owns_matrices && (config.layout.tensor > 1 || config.layout.copies() > 1)) {
    return NotOffered{
        "Muon of LoRA adapters needs one tensor rank and no copies of shards",
        fmt::format("lora.rank = {} with optimizer.name = 'muon', layout.tensor = {} and layout.shard_ranks = {}: "
                    "several ranks hold the same matrix of an adapter and would each compute its update; use "
                    "optimizer.name = 'adamw', or layout.tensor = 1 and layout.shard_ranks = 0",
                    adapter.rank, config.layout.tensor, config.layout.shard_ranks)};
  }
  return std::nullopt;
}

// What the planner alone knows.
std::optional<NotOffered> PricedOnly(const RunConfig& config) {
  if (config.model.latent.any()) {
    return NotOffered{"latent attention is priced for other programs alone",
                      fmt::format("model.kv_lora_rank = {}: the trainer does not compute latent attention (DeepSeek-V2 "
                                  "and V3); 'trireme plan --stack' prices it for programs that do",
                                  config.model.latent.kv_rank)};
  }
  if (config.model.attention_sinks) {
    return NotOffered{
        "attention sinks are priced for other programs alone",
        "model.attention_sinks = true: the trainer does not compute attention sinks, biases of experts and "
        "clamped activations (GPT-OSS); 'trireme plan --stack' prices them for programs that do"};
  }
  if (config.layout.expert > 1) {
    return NotOffered{"the expert axis is priced for other programs alone",
                      fmt::format("layout.expert = {}: the trainer holds all experts on every rank of a stage; set "
                                  "layout.expert = 1 (layout.tensor divides their width, layout.zero their state)",
                                  config.layout.expert)};
  }
  return std::nullopt;
}

// What experts do not work with.
std::optional<NotOffered> ExpertRefusal(const RunConfig& config) {
  if (!config.model.experts.any()) {
    return std::nullopt;
  }
  const std::int64_t count = config.model.experts.count;
  const OptimizerTraits& traits = TraitsOf(config.optimizer.kind);
  if (traits.owns_matrices || traits.factors_matrices) {
    return NotOffered{
        "experts train by an optimizer of elements",
        fmt::format(
            "model.experts = {} with optimizer.name = '{}': it updates whole matrices, and those of all experts "
            "are one parameter; the nearest is optimizer.name = 'adamw'",
            count, Name(config.optimizer.kind))};
  }
  return std::nullopt;
}

// What gradients compressed by PowerSGD do not work with.
std::optional<NotOffered> PowerSgdRefusal(const RunConfig& config) {
  const int rank = config.optimizer.powersgd_rank;
  if (rank == 0) {
    return std::nullopt;
  }
  if (ZeroShards(config.layout.zero).gradients) {
    return NotOffered{
        "PowerSGD compresses whole gradients, which ZeRO 0 and 1 have",
        fmt::format("optimizer.powersgd.rank = {} with layout.zero = {}: PowerSGD compresses whole gradients, which "
                    "stages 0 and 1 have; the nearest is layout.zero = 1",
                    rank, config.layout.zero)};
  }
  if (config.layout.shard_ranks != 0) {
    return NotOffered{
        "PowerSGD reduces over all data ranks, not over shards",
        fmt::format("optimizer.powersgd.rank = {} with layout.shard_ranks = {}: PowerSGD reduces over all data ranks; "
                    "set one of them to 0",
                    rank, config.layout.shard_ranks)};
  }
  if (config.train.rerun) {
    return NotOffered{
        "PowerSGD with train.rerun",
        fmt::format("optimizer.powersgd.rank = {} with train.rerun: a step computed again would add what was left out "
                    "twice; set one of them to 0 or false",
                    rank)};
  }
  if (config.layout.reduce != WireFormat::kExact) {
    return NotOffered{
        "PowerSGD with gradients sent in bf16 or int8",
        fmt::format("optimizer.powersgd.rank = {} with layout.reduce = '{}': both compress what data ranks send; set "
                    "the first to 0 or the second to 'exact'",
                    rank, Name(config.layout.reduce))};
  }
  return std::nullopt;
}

// What only ZeRO 3 can do.
std::optional<NotOffered> ShardRefusal(const RunConfig& config) {
  const ParallelLayout& layout = config.layout;
  const bool shards = ZeroShards(layout.zero).parameters;
  if (!shards && layout.whole_below != 0) {
    return NotOffered{"ZeRO 3 alone has parameters that could stay whole",
                      fmt::format("layout.whole_below = {} with layout.zero = {}: stages 0 to 2 keep every parameter "
                                  "whole; set layout.whole_below = 0 or layout.zero = 3",
                                  layout.whole_below, layout.zero)};
  }
  if (!shards && layout.gather != WireFormat::kExact) {
    return NotOffered{
        "ZeRO 3 alone gathers weights when they are used",
        fmt::format(
            "layout.gather = '{}' with layout.zero = {}: only stage 3 gathers weights when they are used, while "
            "stages 1 and 2 would keep what was rounded; set layout.gather = 'exact' or layout.zero = 3",
            Name(layout.gather), layout.zero)};
  }
  const std::string& dtype = config.train.dtype;
  if (layout.gather == WireFormat::kBFloat16 && dtype != "fp32" && dtype != "tf32") {
    return NotOffered{
        "weights of 16 bits are gathered in bf16 as they are",
        fmt::format("layout.gather = 'bf16' with train.dtype = '{}': weights have 16 bits already; set layout.gather = "
                    "'int8' or 'exact'",
                    dtype)};
  }
  return std::nullopt;
}

}  // namespace

std::optional<NotOffered> FindNotOffered(const RunConfig& config) {
  if (std::optional<NotOffered> refusal = AdapterRefusal(config)) {
    return refusal;
  }
  if (std::optional<NotOffered> refusal = PricedOnly(config)) {
    return refusal;
  }
  if (std::optional<NotOffered> refusal = ExpertRefusal(config)) {
    return refusal;
  }
  if (std::optional<NotOffered> refusal = PowerSgdRefusal(config)) {
    return refusal;
  }
  if (std::optional<NotOffered> refusal = ShardRefusal(config)) {
    return refusal;
  }
  const ContextKind kind = config.layout.context_kind;
  if (config.train.plain_attention() && config.layout.context > 1 &&
      (kind == ContextKind::kRing || kind == ContextKind::kUlyssesRing)) {
    return NotOffered{
        "plain attention needs all keys of a query at once",
        "train.attention = 'plain' with layout.context_kind = 'ring' or 'ulysses+ring': a ring never has all keys of a "
        "query at once; set layout.context_kind = 'ulysses' or 'allgather', or train.attention = 'flash'"};
  }
  if (TraitsOf(config.optimizer.kind).factors_matrices && config.layout.offload == Offload::kFull) {
    return NotOffered{"Adafactor needs the weights on the device",
                      "optimizer.name = 'adafactor' with layout.offload = 'full': its rates follow from the weights, "
                      "which must lie on "
                      "the device; the nearest is layout.offload = 'optimizer'"};
  }
  return std::nullopt;
}

}  // namespace trireme
