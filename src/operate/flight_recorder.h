// The rank's ledger for the time of a run. A run folder that cannot hold one costs the record, not the run. The world
// outlives this, and its groups inherit the ledger as their observer.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "comm/communicator.h"
#include "comm/ledger.h"
#include "operate/training_observer.h"
#include "run/run_config.h"

namespace trireme {

class FlightRecorder {
 public:
  // An empty folder keeps no record.
  FlightRecorder(const RunConfig& config, Communicator& world, const std::string& run_folder, TrainingObserver& watcher)
      : world_(world) {
    if (run_folder.empty()) {
      return;
    }
    try {
      ledger_ = std::make_unique<Ledger>(run_folder + "/flight", world_.rank(), config.layout);
      world_.set_observer(ledger_.get());
    } catch (const Error& error) {
      watcher.Note(fmt::format("no flight record is kept: {}", error.what()));
    }
  }
  ~FlightRecorder() { world_.set_observer(nullptr); }
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  Ledger* ledger() { return ledger_.get(); }
  void Finish(LedgerEnd end, const std::string& message) {
    if (ledger_ != nullptr) {
      ledger_->Finish(end, message);
    }
  }

 private:
  Communicator& world_;
  std::unique_ptr<Ledger> ledger_;
};

}  // namespace trireme
