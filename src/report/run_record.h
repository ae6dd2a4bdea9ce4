// A run's folder, read: what `status`, `compare` and `report` show. Every file may be missing, torn or of another
// version: what cannot be read is left empty.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "report/events.h"
#include "report/step_causes.h"
#include "report/trace_read.h"

namespace trireme {

// metrics.jsonl by column; NaN where a line has no such number. All columns of steps are equally long.
struct MetricColumns {
  std::vector<double> step;
  std::vector<double> tokens;
  std::vector<double> hours;  // of training so far
  std::vector<double> seconds;
  std::vector<double> loss;
  std::vector<double> grad_norm;
  std::vector<double> learning_rate;
  std::vector<double> tokens_per_second;
  std::vector<double> global_batch;
  std::vector<double> memory_bytes;
  std::vector<double> predicted_seconds;
  std::vector<double> tflops;
  std::vector<double> model_tflops;
  std::vector<double> share_of_peak;
  std::vector<double> validation_step;
  std::vector<double> validation_loss;
};

struct MetricColumn {
  const char* name;  // in metrics.jsonl, and in the report's document
  std::vector<double> MetricColumns::*member;
};
// The columns that have a value for every step; the first three are step, tokens, hours.
const std::vector<MetricColumn>& MetricColumnsOfSteps();

// Bytes that a rank holds, or that a stage plans, by kind.
struct MemoryRow {
  int rank = -1;  // -1: of a plan
  int stage = 0;
  std::map<std::string, double> kinds;
};

struct RunRecord {
  std::string name;  // of the folder
  std::string path;
  MetricColumns metrics;
  std::vector<StepCauses> causes;             // of the last steps that have them
  std::map<std::string, std::string> config;  // run.toml, every key
  std::string layout;                         // "tp2 pp2 dp2 zero1 1f1b mbs1, batch 16, bf16"; empty: unknown
  std::int64_t total_steps = 0;               // 0: unknown
  std::int64_t parameters = 0;                // 0: unknown
  int ranks = 0;
  std::vector<RunEvent> events;
  std::vector<MemoryRow> measured_memory;
  std::vector<MemoryRow> planned_memory;
  double predicted_seconds = 0;  // of a step; 0: not predicted
  double predicted_low = 0;
  double predicted_high = 0;
  std::string knowledge;
  std::map<std::string, double> predicted_causes;
  std::string machine;  // machine.json as it is; empty: none
  std::vector<TraceTimeline> timelines;

  std::int64_t steps() const { return static_cast<std::int64_t>(metrics.step.size()); }
  // Median of the steps' seconds without the first two, which prepare; 0: no steps.
  double MedianSeconds() const;
  std::map<std::string, double> MedianCauses() const;
};

// Whether a folder holds what a run writes.
bool IsRunFolder(const std::string& path);
// The runs of `path`: itself, or those right below it by name. An Error when there is none.
std::vector<std::string> RunFoldersOf(const std::string& path);
// An Error when the folder is none of a run.
RunRecord ReadRun(const std::string& folder);

// The parts of ReadRun, for what reads a folder again and again (run_follower.h): the name of its run, a line of
// metrics.jsonl, and all other files but trace.json.
std::string NameOfRun(const std::string& folder);
void AddMetricsLine(const std::string& line, RunRecord& run);
void ReadRunFacts(const std::string& folder, RunRecord& run);

// The median; NaN for no values. Values that are not finite do not count.
double MedianOf(std::vector<double> values);

}  // namespace trireme
