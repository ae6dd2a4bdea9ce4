// A table of measured runs (CSV, columns as in tests/planner/published_runs.csv), and what each row means to the
// planner: a point to price, or the reason why it cannot be one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/model_config.h"
#include "planner/pricing/plan_point.h"

namespace trireme {

struct MeasuredRun {
  int line = 0;
  std::string id, source, table, cluster, accelerator, system, family, dtype, offload, optimizer, compression;
  std::string partition, recompute, outcome, date, trust, note;
  std::optional<double> gpus_per_node, gpus, layers, hidden, heads, kv_heads, ffn, vocabulary, tied, sequence;
  std::optional<double> experts, experts_per_token, expert_ffn, shared_ffn, dense_layers, head_dim;
  std::optional<double> expert, expert_tensor;  // degrees
  std::optional<double> tensor, context, pipeline, chunks, data, zero, micro_batch, accumulation, global_batch;
  std::optional<double> sequence_parallel, flash, memory_gib, seconds, days_per_100b;

  bool clean() const { return trust != "suspect"; }
  bool ran() const { return outcome == "ok" || outcome.empty(); }
  bool ran_out_of_memory() const { return outcome == "oom"; }
  // Failed without telling why.
  bool failed() const { return outcome == "failed"; }
  // Seconds per iteration, from days per 100 billion tokens where only those exist.
  std::optional<double> measured_seconds() const;
};

// The month that the name of a source tells, ISO; "" where it tells none.
std::string ReleaseDate(const std::string& source);

// A table as CSV (base/csv.h). An Error names line and column.
std::vector<MeasuredRun> ParseRuns(const std::string& text, const std::string& origin);
std::vector<MeasuredRun> LoadRuns(const std::string& path);

// Clusters and stacks by which rows are understood.
struct PlannerFiles {
  std::vector<Cluster> clusters;
  std::vector<SoftwareStack> stacks;
  int known_clusters = 0;  // those that files name; the others were assumed
};
PlannerFiles LoadPlannerFiles(const std::string& clusters_folder, const std::string& stacks_folder);
// With a cluster for each machine that runs name and no file does: a copy of one with the same accelerator, with the
// run's devices per node and a site of its own, so that neither borrows the other's calibration.
PlannerFiles WithAssumedClusters(PlannerFiles files, const std::vector<MeasuredRun>& runs);

// A row that can be priced. Indices into PlannerFiles.
struct RunPoint {
  const MeasuredRun* run = nullptr;
  int cluster = 0;
  int stack = 0;
  bool assumed_cluster = false;  // no file names this machine: one with the same accelerator stands for it
  bool assumed_stack = false;    // no file names this program: the one nearest to it stands for it
  RunConfig config;
  bool power_sgd = false;  // PlanPoint's
  bool fused_optimizer = true;
  bool factored_moments = false;

  PlanPoint PointUnder(const Cluster& on, const StackState& state) const;
};

struct Understood {
  std::optional<RunPoint> point;
  std::string reason;  // when there is none
};
Understood Understand(const MeasuredRun& run, const PlannerFiles& files);

}  // namespace trireme
