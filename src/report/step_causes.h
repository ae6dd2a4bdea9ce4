// Seconds of a step by cause, as rank 0 sees them: what it computes, and what it waits for. The same causes are
// predicted and measured.
#pragma once

#include <string>
#include <vector>

#include "comm/phase_clock.h"
#include "planner/pricing/step_estimate.h"

namespace trireme {

struct StepCauses {
  double data = 0;       // the next batch
  double forward = 0;    //
  double backward = 0;   // recomputation included
  double tensor = 0;     // collectives of the tensor and context groups
  double replicas = 0;   // collectives of the data group: gradients, ZeRO's gathers
  double pipeline = 0;   // waiting for messages of other stages: the bubble
  double optimizer = 0;  // gradient norm, update, the step's exchange
  double total() const { return data + forward + backward + tensor + replicas + pipeline + optimizer; }
};

struct CauseField {
  const char* name;
  double StepCauses::*member;
};
const std::vector<CauseField>& CauseFields();
// "timers (s) | data 0.0001 | forward 0.0873 | …": the line of log.timers.
std::string TimersLine(const StepCauses& causes);

StepCauses MeasuredCauses(const PhaseTimes& times);
// Causes of the first stage, where rank 0 is.
StepCauses PredictedCauses(const PlanPoint& point, const StepEstimate& estimate);

}  // namespace trireme
