// DIR/metrics.jsonl: one JSON object a step. Lines are whole or absent: each is written at once and flushed.
#pragma once

#include <cstdio>
#include <optional>
#include <string>

#include "report/log_line.h"
#include "report/step_causes.h"

namespace trireme {

// What a step's line has beside the step's own facts.
struct StepContext {
  std::int64_t memory_bytes = 0;  // of the fullest rank
  double predicted_seconds = 0;   // of the step; written as null when it is 0, which is unknown
  double joules = -1;  // that rank 0's machine has used since this process began; not written below 0, which is unknown
  std::optional<StepCauses> causes;  // of its seconds; not written where they are unknown
};

class MetricsFile {
 public:
  // Opens DIR/metrics.jsonl to append. When the run goes on from `resumed_step`, lines of later steps and a torn last
  // line are cut off first, which takes as long as there are such lines. Throws when the file cannot be written.
  MetricsFile(const std::string& run_folder, std::int64_t resumed_step);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  void Add(const RunConfig& config, const StepFacts& facts, const StepRates& rates, const StepContext& context);
  void AddValidation(std::int64_t step, double loss);
  void AddEvaluation(std::int64_t step, const std::string& task, const std::vector<TaskScore>& scores);

 private:
  void Write(const std::string& line);
  std::string path_;
  std::FILE* file_ = nullptr;
};

}  // namespace trireme
