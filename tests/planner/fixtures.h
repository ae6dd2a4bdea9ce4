// Shipped files and a few models for the planner's tests.
#pragma once

#include "model/model_config.h"
#include "planner/search/search.h"
#include "planner/validation/measured_runs.h"

namespace trireme::test {

inline std::string Source(const std::string& path) { return std::string(TRIREME_SOURCE_DIR) + "/" + path; }
inline Cluster ShippedCluster(const std::string& name) { return LoadCluster(name, Source("clusters")); }
inline SoftwareStack ShippedStack(const std::string& name) { return LoadStack(name, Source("stacks")); }
inline PlannerFiles ShippedFiles() { return LoadPlannerFiles(Source("clusters"), Source("stacks")); }

// The configuration of Llama 3.1 8B, as the hub has it.
inline constexpr const char* kLlamaConfig = R"({"model_type":"llama","num_hidden_layers":32,"hidden_size":4096,
  "num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":14336,"vocab_size":128256,
  "rope_scaling":{"factor":8.0,"rope_type":"llama3"},"max_position_embeddings":131072,"tie_word_embeddings":false})";

inline ModelConfig Bloom176b() {
  return Completed(ModelConfig{
      .family = "bloom", .layers = 70, .hidden = 14336, .heads = 112, .vocabulary = 250880, .sequence = 2048});
}

inline ModelConfig SmallGpt(std::int64_t layers = 8) {
  return Completed(
      ModelConfig{.family = "gpt2", .layers = layers, .hidden = 512, .heads = 8, .vocabulary = 50257, .sequence = 256});
}

// A run in bf16, with all else as recipes have it.
inline RunConfig PlannedRun(const ModelConfig& model, const ParallelLayout& layout, std::int64_t global_batch) {
  RunConfig config;
  config.model = model;
  config.layout = layout;
  config.batch.global = global_batch;
  config.train.dtype = "bf16";
  return config;
}

// A cluster, a stack and its state that live together, for requests that refer to them.
struct Machine {
  Machine(const std::string& cluster_name, const std::string& stack_name)
      : cluster(ShippedCluster(cluster_name)), stack(ShippedStack(stack_name)), state(Resolve(stack, cluster, "")) {}

  SearchRequest Request(const ModelConfig& model, int devices, std::int64_t global_batch) const {
    return {.cluster = cluster,
            .stack = stack,
            .state = state,
            .config = PlannedRun(model, {}, global_batch),
            .devices = devices};
  }
  PlanPoint Point(const ModelConfig& model, const ParallelLayout& layout, std::int64_t global_batch) const {
    PlanPoint point{.cluster = cluster, .stack = state, .config = PlannedRun(model, layout, global_batch)};
    point.config.train.attention = state.time.flash ? AttentionEngine::kFlash : AttentionEngine::kPlain;
    return point;
  }

  Cluster cluster;
  SoftwareStack stack;
  StackState state;
};

}  // namespace trireme::test
