// What `trireme plan` is asked and what it answers: everything between the command line and the printing.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/model_config.h"
#include "planner/queries/emit.h"
#include "topology/cluster.h"
#include "topology/software_stack.h"

namespace trireme {

// A model's extents on the command line; 0 leaves the named model's.
struct ShapeOptions {
  std::string family = "gpt2";  // of a model without a name
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, ffn = 0, vocabulary = 0, sequence = 0;
};
// The named model with these extents; without a name (nullptr) one of the family. A new width has its family's
// feed-forward, new heads have keys of their own, unless these are told too.
ModelConfig ModelOfShape(const ModelConfig* named, const ShapeOptions& shape);

struct PlanOptions {
  std::string dtype = "auto", moments = "fp32", optimizer = "adamw", attention = "auto", accumulate = "auto";
  int nodes = 0, gpus = 0, spare_nodes = 0;  // nodes or devices; neither: the whole cluster
  int most_tensor = 0, most_context = 1, most_micro_batch = 0, power_sgd_rank = 0;  // 0: the usual
  int rows = 0, threads = 2;      // rows 0: up to 8 in the text, 15 in JSON
  std::int64_t global_batch = 0;  // 0: what is usual for the model
  double tokens = 0, headroom = 0.06, deadline = 0, allocation = 0;
  std::string fix, layout, timeline, ramp, search_shape, phases;
  std::string sequences;  // with layout: lengths of samples to price it for
  std::string criteria;   // of the shapes that search_shape proposes
  std::string emit, out = "planned";
  std::string program;  // its version, for what --emit writes
  JobOptions job;
  bool max_size = false, max_sequence = false, estimate = false, full = false, layout_defaults = false;
  bool launch_blocking = false;  // the host waits for every kernel
  bool at_most = false;          // devices may be idle where that is faster
  bool node_schedule = false;    // the best nodes for each batch of the ramp

  // A shape is what is looked for: of the model only family, vocabulary and sequence count.
  bool SearchesShapes() const { return max_size || !search_shape.empty(); }
};
// Mistakes that are seen without a machine or a model: an Error that says what to give instead.
void RequireConsistent(const PlanOptions& options);

struct PlanSubject {
  const Cluster& cluster;
  const SoftwareStack& stack;
  const ModelConfig& model;             // completed
  std::vector<SoftwareStack> compared;  // not empty: these, side by side
};

// NOLINTNEXTLINE(bugprone-exception-escape): the move of a JSON value does not throw
struct PlanAnswer {
  struct File {
    std::string path;
    std::string text;
  };
  std::string text;     // for people
  nlohmann::json json;  // the same for programs
  std::vector<File> files;
  std::vector<std::string> notes;  // what was chosen where nothing was given
  bool found = true;               // false: no layout fits, or the one asked for is refused
};
// Requires RequireConsistent(options).
PlanAnswer AnswerPlan(const PlanSubject& subject, const PlanOptions& options);

}  // namespace trireme
