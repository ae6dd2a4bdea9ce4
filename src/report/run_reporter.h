// What a person and a program see of a run: log lines or a live progress line on the console, metrics.jsonl, notes.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "operate/training_loop.h"
#include "report/metrics.h"
#include "report/prediction_report.h"

namespace trireme {

struct ReporterOptions {
  std::string run_folder;  // empty: no files
  bool live = false;       // rewrite a progress line between log lines (a terminal)
  std::int64_t log_every = 1;
  std::optional<PredictionGround> ground;  // what the run is predicted from; none: it is not
};

class RunReporter : public TrainingObserver {
 public:
  explicit RunReporter(const ReporterOptions& options) : options_(options) {}

  void Started(const Trainer& trainer, std::int64_t resumed_step) override;
  void StepDone(const StepFacts& facts) override;
  void Validated(std::int64_t step, double loss) override;
  void MemoryMeasured(const std::vector<MemoryUse>& by_rank) override;
  void Note(const std::string& message) override;
  void Ended() override;

 private:
  void Print(const std::string& line);  // any thread
  void Put(const std::string& text);    // with console_ locked
  void StartPrediction(const Trainer& trainer, std::int64_t resumed_step);
  // Says what the run is expected to take.
  void Predict(const Trainer& trainer, std::int64_t resumed_step);
  void ShowProgress(const StepFacts& facts, const StepRates& rates);

  ReporterOptions options_;
  RunConfig config_;
  double peak_flops_ = 0;
  std::int64_t memory_bytes_ = 0;
  double first_loss_ = 0;
  double seconds_ = 0;  // smoothed, of a step
  std::mutex console_;
  bool progress_shown_ = false;
  std::int64_t left_out_ = 0;  // lines since the console took one
  std::unique_ptr<MetricsFile> metrics_;
  std::unique_ptr<PredictionReport> prediction_;
  bool by_cause_ = false;  // phases of rank 0's thread are what its device did
};

// "12.3 MB"
std::string HumanBytes(std::int64_t bytes);

}  // namespace trireme
