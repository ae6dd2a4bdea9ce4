// DIR/metrics.jsonl: one JSON object a step. Lines are whole or absent: each is written at once and flushed.
#pragma once

#include <cstdio>
#include <string>

#include "report/log_line.h"

namespace trireme {

class MetricsFile {
 public:
  // Opens DIR/metrics.jsonl to append. When the run goes on from `resumed_step`, lines of later steps and a torn last
  // line are cut off first, which takes as long as there are such lines. Throws when the file cannot be written.
  MetricsFile(const std::string& run_folder, std::int64_t resumed_step);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  // memory_bytes: of the fullest rank. predicted_seconds: of the step; written as null when it is 0, which is unknown.
  void Add(const RunConfig& config, const StepFacts& facts, const StepRates& rates, std::int64_t memory_bytes,
           double predicted_seconds = 0);
  void AddValidation(std::int64_t step, double loss);

 private:
  void Write(const std::string& line);
  std::string path_;
  std::FILE* file_ = nullptr;
};

}  // namespace trireme
