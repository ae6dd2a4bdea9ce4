// Nodes, micro batch and layout for each batch of a ramp, on at most the request's devices: small batches cannot use a
// whole allocation, and its nodes are of use elsewhere until they can.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "planner/search/search.h"
#include "run/run_config.h"

namespace trireme {

struct NodeScheduleRow {
  std::int64_t batch = 0;
  double samples = 0;  // consumed at this batch; 0: until the run ends
  int devices = 0;
  Candidate best;  // seconds 0: nothing fits
};

struct NodeSchedule {
  std::vector<NodeScheduleRow> rows;  // ascending batch, the full one last
  int devices_per_node = 1;
  // Figures of the ramp alone: seconds and device-hours, and those of the whole allocation with one layout, the full
  // batch's.
  double seconds = 0;
  double device_hours = 0;
};

// Batches of a fine ramp are planned in groups: those of a group have the layout that is best for its first one and
// divides all. An Error where the full batch fits in no layout.
NodeSchedule PlanNodes(const SearchRequest& request, const BatchConfig& batch);

struct TrainingNeeds {
  double days = 0;
  double device_hours = 0;
};
// Steps alone of a training of so many samples, which ends at the full batch.
TrainingNeeds NeedsOf(const NodeSchedule& schedule, double samples);

// NNODES | BS | MBS and the layout; a line for batches in a row that are alike.
std::string ToText(const NodeSchedule& schedule);
nlohmann::json ToJsonValue(const NodeSchedule& schedule);
// As train.stages of a recipe that has the full batch's layout.
std::string StagesOf(const NodeSchedule& schedule, const SearchRequest& request);

}  // namespace trireme
