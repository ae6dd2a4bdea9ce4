// DIR/metrics.jsonl: one JSON object a step. Lines are whole or absent; those that a full disk does not take are kept
// in memory and written when it has room again.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "report/line_file.h"
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
  // line are cut off first, which takes as long as there are such lines. Throws when the file cannot be opened.
  // `message` is told once when the disk takes no more lines; may be empty.
  MetricsFile(const std::string& run_folder, std::int64_t resumed_step,
              std::function<void(const std::string&)> message = {});
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  // The run goes back to this step: lines of later ones are cut off, in the file and in memory.
  void GoBack(std::int64_t step);
  // Writes what waits in memory, as far as the disk takes it.
  void Flush();
  // Lines that the disk has not taken.
  std::size_t waiting() const { return file_.waiting().size(); }

  void Add(const RunConfig& config, const StepFacts& facts, const StepRates& rates, const StepContext& context);
  void AddValidation(std::int64_t step, double loss);
  void AddEvaluation(std::int64_t step, const std::string& task, const std::vector<TaskScore>& scores);

 private:
  // After lines were added: `reason` is 0 or why the disk did not take all.
  void Tell(int reason);
  void Write(const std::string& line);

  std::string path_;
  std::function<void(const std::string&)> message_;
  bool told_ = false;
  LineFile file_;
};

}  // namespace trireme
