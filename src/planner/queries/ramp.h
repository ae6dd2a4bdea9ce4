// A batch ramp priced: what each batch size costs under one layout, and which layout each would best have.
#pragma once

#include <string>
#include <vector>

#include "planner/queries/training_time.h"
#include "planner/search/search.h"
#include "run/run_config.h"

namespace trireme {

struct RampRow {
  std::int64_t batch = 0;
  double samples = 0;  // consumed at this size
  bool divides = true;
  Candidate fixed;  // under the one layout; seconds 0 when the batch does not divide
  Candidate best;   // under the layout that suits this batch most
};

struct RampPlan {
  std::vector<RampRow> rows;  // ascending batch
  double fixed_seconds = 0;   // of the whole ramp; rows that do not divide are left out
  double best_seconds = 0;
  std::int64_t filling_batch = 0;  // the least that gives every stage a micro batch at once
};

// An Error unless the ramp meets the global batch in whole increments.
void RequireRamp(const BatchConfig& batch);
// Prices the ramp up to, not including, the full batch.
RampPlan PriceRamp(const SearchRequest& request, const BatchConfig& batch, const ParallelLayout& layout);
std::string ToText(const RampPlan& plan);
// The ramp as train.stages: each batch under the layout that suits it, with the keys that differ from a run under
// `layout` at the full batch. Batches that no layout fits, or that take no samples, are left out.
std::string StagesOf(const RampPlan& plan, const SearchRequest& request, const ParallelLayout& layout);

// The stretches of a run of `samples`: the ramp, then the full batch.
std::vector<ConstantBatchSpan> StretchesOf(const RampPlan& plan, const Candidate& full, const BatchConfig& batch,
                                           double samples);

}  // namespace trireme
