#include "planner/queries/node_schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/units.h"
#include "planner/queries/ramp.h"
#include "planner/search/at_most.h"
#include "run/recipe_keys.h"

namespace trireme {
namespace {

// Ramps are planned in at most so many pieces.
constexpr std::int64_t kMostGroups = 16;
// A larger allocation must be faster by more than this to be worth its nodes.
constexpr double kWorthNodes = 0.005;

struct Fastest {
  int devices = 0;
  Candidate best;
};

// On any number of whole nodes up to the request's devices: the fewest that are as fast as the fastest.
Fastest FastestWithin(const SearchRequest& request) {
  SearchRequest on = request;
  on.keep = 1;
  on.tie = 0;
  on.most_seconds = std::numeric_limits<double>::max();  // the front of speed and memory is of no interest
  const AtMostResult most = SearchAtMost(on, kWorthNodes);
  return most.found.ranked.empty() ? Fastest{} : Fastest{.devices = most.devices, .best = most.found.ranked.front()};
}

bool Alike(const NodeScheduleRow& a, const NodeScheduleRow& b) {
  return a.devices == b.devices && a.best.layout == b.best.layout && (a.best.seconds > 0) == (b.best.seconds > 0);
}

int NodesOf(const NodeSchedule& schedule, const NodeScheduleRow& row) {
  return (row.devices + schedule.devices_per_node - 1) / schedule.devices_per_node;
}

}  // namespace

NodeSchedule PlanNodes(const SearchRequest& request, const BatchConfig& batch) {
  RequireRamp(batch);
  NodeSchedule schedule{.rows = {}, .devices_per_node = request.cluster.devices_per_node};
  const std::int64_t steps = (batch.global - batch.ramp_start) / batch.ramp_increment;
  const std::int64_t group = std::max<std::int64_t>(1, (steps + kMostGroups - 1) / kMostGroups);
  Fastest fastest;
  for (std::int64_t step = 0; step < steps; ++step) {
    SearchRequest at = request;
    at.config.batch.global = batch.ramp_start + step * batch.ramp_increment;
    if (step % group == 0) {
      // What divides the first batch and the increment divides every batch of the group.
      at.ramp_unit = group > 1 ? batch.ramp_increment : 0;
      fastest = FastestWithin(at);
    }
    NodeScheduleRow row{.batch = at.config.batch.global,
                        .samples = static_cast<double>(batch.ramp_samples) / static_cast<double>(steps),
                        .devices = fastest.devices,
                        .best = {}};
    if (fastest.devices > 0) {
      at.ramp_unit = 0;
      at.devices = fastest.devices;
      row.best = Price(at, fastest.best.layout);
    }
    const double count = row.samples / static_cast<double>(row.batch);
    schedule.seconds += count * row.best.seconds;
    schedule.device_hours += count * row.best.seconds * row.devices / 3600;
    schedule.rows.push_back(row);
  }
  SearchRequest full = request;
  full.ramp_unit = 0;
  const Fastest last = FastestWithin(full);
  Require(last.devices > 0, "no layout fits the full batch of {} on up to {} devices", batch.global, request.devices);
  schedule.rows.push_back({.batch = batch.global, .samples = 0, .devices = last.devices, .best = last.best});
  return schedule;
}

TrainingNeeds NeedsOf(const NodeSchedule& schedule, double samples) {
  TrainingNeeds needs{.days = schedule.seconds / 86'400, .device_hours = schedule.device_hours};
  double left = samples;
  for (const NodeScheduleRow& row : schedule.rows) {
    left -= row.samples;
  }
  const NodeScheduleRow& last = schedule.rows.back();
  const double seconds = std::ceil(std::max(left, 0.0) / static_cast<double>(last.batch)) * last.best.seconds;
  needs.days += seconds / 86'400;
  needs.device_hours += seconds * last.devices / 3600;
  return needs;
}

std::string ToText(const NodeSchedule& schedule) {
  std::string text = fmt::format("{:>7} {:>11} {:>4} {:>10} {:>8} {:>8}  {}\n", "NNODES", "BS", "MBS", "steps",
                                 "s/step", "GiB", "layout");
  const std::vector<NodeScheduleRow>& rows = schedule.rows;
  for (std::size_t i = 0; i < rows.size();) {
    std::size_t last = i;
    double steps = rows[i].samples / static_cast<double>(rows[i].batch);
    while (last + 1 < rows.size() && Alike(rows[i], rows[last + 1])) {
      ++last;
      steps += rows[last].samples / static_cast<double>(rows[last].batch);
    }
    const std::string batches =
        last > i ? fmt::format("{}-{}", rows[i].batch, rows[last].batch) : std::to_string(rows[i].batch);
    const bool to_the_end = rows[last].samples == 0;
    if (rows[i].best.seconds <= 0) {
      text += fmt::format("{:>7} {:>11} {:>4} {:>10.0f} {:>8} {:>8}  nothing fits\n", "", batches, "", steps, "", "");
    } else {
      const Candidate& best = rows[last].best;
      text += fmt::format("{:>7} {:>11} {:>4} {:>10} {:>8.2f} {:>8.1f}  {}\n", NodesOf(schedule, rows[i]), batches,
                          best.layout.micro_batch, to_the_end ? "to the end" : fmt::format("{:.0f}", steps),
                          best.seconds, best.peak / kGibi, best.layout.ToString());
    }
    i = last + 1;
  }
  return text + fmt::format("the ramp takes {:.2f} days and {:.0f} device-hours\n", schedule.seconds / 86'400,
                            schedule.device_hours);
}

nlohmann::json ToJsonValue(const NodeSchedule& schedule) {
  nlohmann::json rows = nlohmann::json::array();
  for (const NodeScheduleRow& row : schedule.rows) {
    rows.push_back({{"batch", row.batch},
                    {"samples", row.samples},
                    {"nodes", NodesOf(schedule, row)},
                    {"devices", row.devices},
                    {"micro_batch", row.best.layout.micro_batch},
                    {"seconds", row.best.seconds},
                    {"peak", row.best.peak},
                    {"layout", row.best.seconds > 0 ? row.best.layout.ToString() : ""}});
  }
  return {{"rows", rows}, {"days", schedule.seconds / 86'400}, {"device_hours", schedule.device_hours}};
}

std::string StagesOf(const NodeSchedule& schedule, const SearchRequest& request) {
  RampPlan ramp;
  for (const NodeScheduleRow& row : schedule.rows) {
    if (row.samples > 0) {
      ramp.rows.push_back({.batch = row.batch, .samples = row.samples, .best = row.best});
    }
  }
  return StagesOf(ramp, request, schedule.rows.back().best.layout);
}

}  // namespace trireme
