// Saves checkpoints beside the training: StartSave() hands over a snapshot and returns, a thread of this object writes
// it, with rests, so that training has the machine. One save at a time: the next StartSave() waits for the one before.
// A save that fails costs nothing but itself: its folder is removed, older checkpoints stay, and one message says why.
// One object a rank; every rank starts the same saves in the same order.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/save_steps.h"

namespace trireme {

struct SaverOptions {
  std::string folder;  // of all checkpoints
  std::int64_t rank = 0;
  std::int64_t ranks = 1;
  std::int64_t keep = 3;     // checkpoints that pruning leaves
  bool asynchronous = true;  // false: StartSave() returns when the checkpoint is there (rank 0) or this shard is
  bool read_back = true;
  double commit_seconds = 1800;
  // Called from the saving thread. Only what a person must know; ranks other than 0 speak only when rank 0 cannot.
  std::function<void(const std::string&)> message;
  SaveHook hook;
};

class CheckpointSaver {
 public:
  // Rank 0 removes what earlier processes left unfinished. Construct it before ranks first meet in a collective.
  explicit CheckpointSaver(SaverOptions options);
  // Ends the save in hand: a shard being written is finished, a wait for other ranks is given up. Call Wait() before,
  // unless the run is lost.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // The memory behind `slices` must stay as it is until Wait() returns. `at_once`: as if not asynchronous, for a run
  // that ends with it: a thread that gives way to others could be late on a busy machine.
  void StartSave(RunState state, std::vector<SaveSlice> slices, bool at_once = false);
  // Instead of StartSave() on a rank that has no snapshot to give: the save of `step` fails for `reason`, as one that
  // cannot be written does.
  void FailSave(std::int64_t step, const std::string& reason);
  // Returns when no save is under way; the one that is takes no rests from here on.
  void Wait();
  // Highest step that rank 0 of this object has committed; -1 before the first and on other ranks.
  std::int64_t last_committed() const { return last_committed_.load(); }
  // Seconds that the last finished save took in the background.
  double last_seconds() const { return last_seconds_.load(); }

 private:
  void Save(const SaveTask& task, const RunState& state, const std::vector<SaveSlice>& slices);
  void Prune(const SaveTask& task);
  SaveTask NextTask(std::int64_t step);
  void Abandon(const SaveTask& task, const std::string& reason);
  void Say(const std::string& text) const;

  SaverOptions options_;
  std::thread worker_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> hurry_ = false;
  std::atomic<std::int64_t> last_committed_ = -1;
  std::atomic<double> last_seconds_ = 0;
  std::int64_t attempts_ = 0;
};

}  // namespace trireme
