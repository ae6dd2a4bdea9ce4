// Answers a request to stop within two seconds, whatever the ranks of this process are doing. The training loop itself
// answers between steps (training_loop.h); this thread covers the rest: before a rank trains nothing is to be saved and
// the process ends at once; while ranks train it says that the step under way is finished and saved, and ends the
// process when none of them moves any more. A save under way completes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "comm/ledger.h"
#include "operate/stop_signals.h"

namespace trireme {

struct StopWatchOptions {
  std::string flight;  // the folder of the ranks' ledgers; empty: they keep none, and nothing is saved
  std::function<void(const std::string&)> message;
  std::function<void(int code)> end;  // ends the process with this exit code; does not return
  // How long ranks may stand still once the job was asked to stop; longer where they stood still longer before.
  double still_seconds = 5;
  double poll_seconds = 0.2;
};

class StopWatch {
 public:
  enum class Stage : std::uint8_t {
    kStarting,  // what has been trained is saved
    kTraining,
    kEnding,  // all is saved, and the run is over or goes on with another stage
  };

  // `signals` outlive this.
  StopWatch(const StopSignals& signals, StopWatchOptions options);
  ~StopWatch();
  StopWatch(const StopWatch&) = delete;
  StopWatch& operator=(const StopWatch&) = delete;

  // A rank of this process, for the time of a stage. Without a watch or a ledger (nullptr) it does less or nothing.
  class Rank {
   public:
    Rank(StopWatch* watch, int rank, Ledger* ledger);
    ~Rank();
    Rank(const Rank&) = delete;
    Rank& operator=(const Rank&) = delete;
    void Enter(Stage stage);

   private:
    StopWatch* watch_;
    int rank_;
  };

 private:
  struct State {
    Stage stage = Stage::kStarting;
    Ledger* ledger = nullptr;
  };

  void Run();
  // The stage of all ranks together; with mutex_ locked.
  Stage StageOfRanks() const;
  // Whether ranks that train have moved since the last look, or do what may take long; with mutex_ locked.
  bool Moves();
  void EndBeforeTraining();
  void EndHung(double seconds) const;

  const StopSignals& signals_;
  const StopWatchOptions options_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
  std::map<int, State> ranks_;
  std::uint64_t beats_ = 0;  // of all ranks of this process
  std::thread thread_;
};

}  // namespace trireme
