// Seconds of one training step by cause: the trainer's Schedule priced by action, then what is not overlapped with it.
#pragma once

#include <string>
#include <vector>

#include "planner/pricing/memory_estimate.h"
#include "planner/pricing/module_time.h"
#include "planner/pricing/pipeline_time.h"
#include "planner/pricing/plan_point.h"

namespace trireme {

// Seconds of a step. Compute terms are those of the slowest stage over all micro batches; `bubble` is what the
// pipeline's end is later than that, messages included.
struct StepTerms {
  double matmul = 0;
  double attention = 0;
  double memory = 0;
  double tensor = 0;
  double context = 0;  // of our trainer; that of others hides behind attention
  double experts = 0;  // exchanges of rows between ranks that divide experts
  double overhead = 0;
  double head = 0;        // logits and loss, where the slowest stage has them
  double accumulate = 0;  // gradients into fp32, or to the host, each micro batch
  double gather = 0;      // ZeRO 2 and 3 traffic that compute does not hide
  double bubble = 0;
  double data = 0;      // exposed part of gradient reduction and parameter gather
  double compress = 0;  // PowerSGD
  double optimizer = 0;
  double offload = 0;  // transfers and host update
  double fixed = 0;
  double slowdown = 0;  // of a slow revision

  double total() const;
};

struct StepEstimate {
  double seconds = 0;
  double low = 0;  // 80 % interval
  double high = 0;
  StepTerms terms;
  int slowest = 0;                    // stage
  double slowest_seconds = 0;         // its work of one micro batch
  double slowest_share = 1;           // its work over the mean of all
  double shared_seconds = 0;          // of all micro batches where stages take turns on cores; 0: they do not
  double message = 0;                 // seconds of one
  double data_hidden = 0;             // seconds of data collectives behind compute
  std::vector<double> stage_seconds;  // work of one micro batch by virtual stage
  ScheduleCosts costs;
  std::vector<std::int64_t> blocks;
  MemoryEstimate memory;
};

// Parts of an estimate that many layouts share may be kept in `clock` and `account`. Requires a layout that divides
// model and batch; Error where the schedule refuses the counts.
StepEstimate EstimateStep(const PlanPoint& point, const ModelAccount& account, PipelineClock& clock);
// An estimate without memory.
StepEstimate EstimateTime(const PlanPoint& point, const ModelAccount& account, PipelineClock& clock);

// Its two halves. BoundTime prices all but the order of the pipeline's actions: its seconds are never more than the
// whole step's. PlayTime plays that order and completes the estimate. blocks: BlocksOfStages(point).
StepEstimate BoundTime(const PlanPoint& point, const ModelAccount& account, std::vector<std::int64_t> blocks);
void PlayTime(const PlanPoint& point, PipelineClock& clock, StepEstimate& estimate);

// FLOPs of a step over all devices without recomputation, what an MFU divides by. PriceModel has those with it.
double ModelFlops(const PlanPoint& point);

}  // namespace trireme
