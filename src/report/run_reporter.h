// What a person and a program see of a run: log lines and a live screen on the console, metrics.jsonl, notes.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "device/energy.h"
#include "operate/training_loop.h"
#include "report/events.h"
#include "report/metrics.h"
#include "report/prediction_report.h"
#include "report/status_screen.h"
#include "report/tensorboard.h"

namespace trireme {

struct ReporterOptions {
  std::string run_folder;  // empty: no files
  bool live = false;       // keep a screen of the run's state below the log lines (a terminal)
  std::int64_t log_every = 1;
  bool trace = false;  // merge the ranks' traces into trace.json at the end
};

class RunReporter : public TrainingObserver {
 public:
  explicit RunReporter(const ReporterOptions& options) : options_(options) {}

  // What the run is predicted from; none: it is not. Before Started, on the same thread.
  void set_prediction_context(std::optional<PredictionContext> context) { prediction_context_ = std::move(context); }

  // On the console alone.
  void Say(const std::string& lines) { Print(lines); }

  void Started(const Trainer& trainer, std::int64_t resumed_step) override;
  void StepDone(const StepFacts& facts) override;
  void Validated(std::int64_t step, double loss) override;
  void HistogramsTaken(const StepHistograms& histograms) override;
  void Evaluated(std::int64_t step, const std::string& task, const std::vector<TaskScore>& scores) override;
  void MemoryMeasured(const std::vector<MemoryUse>& by_rank) override;
  void DeviceChose(const std::string& choices) override;
  void Note(const std::string& message) override;
  void Saving(std::int64_t step) override;
  void Ended() override;

 private:
  void Print(const std::string& line);  // any thread
  void Put(const std::string& text);    // with console_ locked
  // Into events.jsonl; any thread.
  void Record(const std::string& kind, const std::string& text);
  void WriteEvents();  // with events_ locked
  // Lines that a full disk has not taken, at the end of a run or of a stage.
  void WriteWhatWaits();
  void StartPrediction(std::int64_t resumed_step);
  void WriteTrace();
  void ReadEnergy();
  void WriteMemory(const std::vector<MemoryUse>& by_rank) const;
  // Says what the run is expected to take.
  void Predict(const Trainer& trainer, std::int64_t resumed_step);
  void StartTensorBoard(std::int64_t resumed_step);
  void AddToTensorBoard(const StepFacts& facts, const StepRates& rates, double predicted);
  void ShowProgress(const StepFacts& facts, const StepRates& rates, double predicted);
  // What takes the live screen off the terminal; with console_ locked.
  std::string EraseScreen();

  ReporterOptions options_;
  std::optional<PredictionContext> prediction_context_;
  RunConfig config_;
  double peak_flops_ = 0;
  std::int64_t memory_bytes_ = 0;
  std::vector<MemoryUse> memory_;  // by rank
  ScreenFacts screen_;             // what the live screen shows
  double seconds_ = 0;             // smoothed, of a step
  IdleExperts idle_experts_;
  EnergySum energy_;  // of rank 0's machine, since this process began its first step
  bool paced_ = false;
  double energy_tokens_ = 0;  // of the steps that it is of
  std::mutex console_;
  int screen_lines_ = 0;       // of the live screen, above the cursor
  std::int64_t left_out_ = 0;  // lines since the console took one
  std::unique_ptr<MetricsFile> metrics_;
  std::mutex events_;
  std::deque<RunEvent> unwritten_;                // oldest first
  std::mutex records_;                            // of tensorboard_, which notes of other threads enter too
  std::unique_ptr<TensorBoardFile> tensorboard_;  // with log.tensorboard
  std::unique_ptr<PredictionReport> prediction_;
  std::atomic<std::int64_t> step_ = 0;  // the last one that is done
  bool by_cause_ = false;               // phases of rank 0's thread are what its device did
};

}  // namespace trireme
