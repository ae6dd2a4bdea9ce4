// `plan validate`: predicts every measured run of a table and scores itself.
#pragma once

#include <string>
#include <vector>

#include "planner/calibration.h"
#include "planner/measured_runs.h"

namespace trireme {

struct ValidateOptions {
  bool leave_one_out = false;  // each table is predicted by a calibration on the others
  int fit = 0;                 // above 0: calibrate on this many runs of each (cluster, stack), score the rest
};

struct Prediction {
  const MeasuredRun* run = nullptr;
  std::string cluster;  // names of the files it was priced with
  std::string stack;
  bool assumed_cluster = false;
  bool fitted_on = false;  // one of the runs that --fit learned from
  std::string layout;      // equal text: equal decision
  bool slowed = false;     // the site was slow then: a decision set of its own
  double seconds = 0;
  double low = 0;
  double high = 0;
  double days_per_100b = 0;
  double peak = 0;  // bytes, of the stage that the stack's logs tell
  double worst = 0;
  bool fits = true;
};

struct Unrepresented {
  const MeasuredRun* run = nullptr;
  std::string reason;
};

struct GroupScore {
  std::string name;
  int timed = 0;
  double time_error = 0;  // mean absolute, relative
  double time_bias = 0;
  int days_only = 0;  // of the timed ones: measured as days per 100B tokens
  int remembered = 0;
  double memory_error = 0;
  double covered = 0;     // share of measured seconds within the interval
  double half_width = 0;  // median, relative
};

struct SetScore {
  std::string name;
  int layouts = 0;
  double spearman = 0;
  double kendall = 0;
  double regret = 0;
  bool chose_out_of_memory = false;  // the first choice among those predicted to fit
};

struct Validation {
  std::vector<Prediction> predictions;
  std::vector<Unrepresented> unrepresented;
  std::vector<GroupScore> groups;  // clean runs; the last is all of them
  GroupScore suspect;
  std::vector<SetScore> sets;
  double mean_spearman = 0;  // over sets of three layouts and more
  double mean_kendall = 0;
  double mean_regret = 0;
  double worst_regret = 0;
  int out_of_memory = 0;  // clean runs that did
  int found = 0;
  int false_alarms = 0;
  int chosen_out_of_memory = 0;
};

// `runs` must outlive the result.
Validation Validate(const std::vector<MeasuredRun>& runs, const PlannerFiles& files, const ValidateOptions& options);

// [[calibration]] sections for stack files, each under the name of its stack, from all clean runs of a table.
std::string CalibrationsText(const std::vector<MeasuredRun>& runs, const PlannerFiles& files);

std::string ToText(const Validation& validation);
std::string ToJson(const Validation& validation);

}  // namespace trireme
