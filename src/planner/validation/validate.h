// `plan validate`: predicts every measured run of a table and scores itself.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "planner/validation/calibration.h"
#include "planner/validation/measured_runs.h"

namespace trireme {

struct ValidateOptions {
  bool leave_one_out = false;  // each table is predicted by a calibration on the others
  int fit = 0;                 // above 0: calibrate on this many runs of each (source, stack), score the rest
};

struct Prediction {
  const MeasuredRun* run = nullptr;
  std::string cluster;  // names of the files it was priced with
  std::string stack;
  bool assumed_cluster = false;
  bool assumed_stack = false;
  bool sick = false;       // FindSick's
  bool fitted_on = false;  // one of the runs that --fit learned from
  std::string layout;      // equal text: equal decision
  bool slowed = false;     // the site was slow then: a decision set of its own
  double seconds = 0;
  double low = 0;
  double high = 0;
  double days_per_100b = 0;
  double peak = 0;  // bytes, of the stage that the stack's logs tell
  double worst = 0;
  double exact = 0;       // bytes of weights, gradients, optimizer state and kept activations alone
  double memory = 0;      // of the device
  std::string dtype;      // as priced
  double parameters = 0;  // of the model
  int devices = 0;
  bool across = false;  // several nodes
  // What its interval is made of where no long record gives it (pricing/interval.h): sensitivities to the efficiencies,
  // and the covariance of these.
  std::vector<double> sensitivities;
  std::shared_ptr<const std::vector<double>> covariance;
  double fit_probability = 1;  // of device memory
  bool fits = true;
};

// What a run that failed without a word died of, by exact formulas alone.
enum class Failure : std::uint8_t { kNone, kMemory, kOther, kUnknown };
Failure FailureOf(const Prediction& prediction);

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
  double expected_regret = 0;        // of its first choice, by what is known before any was measured; 0: not known
  bool chose_out_of_memory = false;  // the first choice among those predicted to fit
  std::vector<double> paired;        // of each two layouts: how far the ratio of their seconds is off, as a logarithm
};

// What first choices cost, over sets of at least three timed runs.
struct RegretScore {
  int sets = 0;
  double mean = 0;
  double median = 0;
  double worst = 0;
  double expected = 0;  // mean of what was to be expected before any was measured
};

// A source's runs. Both releases of one publisher are one source; sources under 20 runs are pooled.
struct SourceScore {
  GroupScore all;
  GroupScore settled;  // with one stage, or on at most 64 devices; empty name: the same runs
  int sick = 0;
  GroupScore well;  // all but the sick ones
  RegretScore regret;
  RegretScore well_regret;  // of sets of the runs that are not sick
  int memory_failures = 0;  // failed, by exact formulas for memory
  int called = 0;           // of these, predicted not to fit
  int other_failures = 0;
  int unclear_failures = 0;
  int ran = 0;
  int false_alarms = 0;  // of those that ran, predicted not to fit
};
// The source's name without the version of a release: "dgxc-v25.04" and "dgxc-v24.11" are one.
std::string SourceOf(const MeasuredRun& run);

struct Validation {
  std::vector<SourceScore> sources;
  std::vector<Prediction> predictions;
  std::vector<Unrepresented> unrepresented;
  std::vector<GroupScore> groups;  // clean runs; the last is all of them
  GroupScore suspect;
  std::vector<SetScore> sets;
  double mean_spearman = 0;  // over sets of three layouts and more
  double mean_kendall = 0;
  double mean_regret = 0;
  double median_regret = 0;
  double worst_regret = 0;
  double paired_error = 0;  // mean of the sets' paired residuals
  int pairs = 0;
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
// Predicted against measured seconds of all clean runs, a colour a source, as an SVG picture.
std::string ToSvg(const Validation& validation);
std::string ToJson(const Validation& validation);
// An HTML page of what predictions miss by: by layout, model size, devices, format, release and source, and the runs
// that miss most.
std::string ToResiduals(const Validation& validation);

}  // namespace trireme
