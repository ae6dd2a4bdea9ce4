// Saves checkpoints while training goes on: StartSave() hands over a snapshot and returns, a thread of this object
// writes it, with rests, so that training has the machine. One save at a time: the next StartSave() waits for the one
// before. A save that fails costs nothing but itself: its folder is removed, older checkpoints stay, and one message
// says why. One object a rank; every rank starts the same saves in the same order. Of a few dozen ranks rank 0 removes
// old checkpoints; more ranks divide their files: each removes its part before it writes its shard of the next save.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/save/save_steps.h"

namespace trireme {

struct SaverOptions {
  std::string folder;  // of all checkpoints
  std::int64_t rank = 0;
  std::int64_t ranks = 1;
  std::int64_t ranks_per_file = 1;  // consecutive ranks whose state one shard holds
  std::int64_t keep = 3;            // checkpoints that pruning leaves
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

  // The memory behind `slices` must stay as it is until Wait() returns. `at_once`: without rests, and without giving
  // way to other threads: a run that waits for it could be late on a busy machine. `device_choices` goes into this
  // rank's shard.
  void StartSave(RunState state, std::vector<SaveSlice> slices, bool at_once = false,
                 const std::string& device_choices = "");
  // Instead of StartSave() on a rank that has no snapshot to give: the save of `step` fails for `reason`, as one that
  // cannot be written does.
  void FailSave(std::int64_t step, const std::string& reason);
  // Returns when this rank's shard of the last save is written or has failed; it takes no rests from here on.
  void WaitForShard();
  // After WaitForShard(): whether the shard is where rank 0 looks for it. Without a meaning once rank 0 looks no
  // longer.
  bool ShardIsThere() const;
  // When a rank's shard was not there after all ranks had written theirs: the save under way, if any, fails.
  void ShardIsLost(std::int64_t rank) { lost_ = rank; }
  // Returns when no save is under way; the one that is takes no rests from here on. On rank 0, and on ranks that
  // collect the shards of a group, that may take as long as the slowest rank.
  void Wait();
  // Removes this rank's part of the checkpoints that were pruned last, where ranks divide them. After Wait() on rank 0.
  void RemovePruned() const;
  // Whether a save is being written, or on rank 0 committed.
  bool under_way() const { return under_way_.load(); }
  // Highest step that rank 0 of this object has committed; -1 before the first and on other ranks.
  std::int64_t last_committed() const { return last_committed_.load(); }
  // Seconds that the last finished save took in the background.
  double last_seconds() const { return last_seconds_.load(); }

 private:
  enum class Shard : std::uint8_t { kWriting, kWritten, kFailed };

  // Whether `work` for a save was done; otherwise the save is given up.
  bool Attempt(const SaveTask& task, const std::function<void()>& work);
  void Save(const SaveTask& task, const RunState& state, const std::vector<SaveSlice>& slices);
  void Finish(const SaveTask& task, const RunState& state);
  void Prune(const SaveTask& task);
  SaveTask NextTask(std::int64_t step);
  void Abandon(const SaveTask& task, const std::string& reason);
  void Say(const std::string& text) const;

  SaverOptions options_;
  std::thread worker_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> hurry_ = false;
  std::atomic<bool> under_way_ = false;
  std::atomic<Shard> shard_ = Shard::kWritten;  // of the last save
  std::string part_path_;                       // what this rank wrote; empty: there was no save
  std::string shard_path_;                      // where rank 0 looks for it
  std::atomic<std::int64_t> lost_ = -1;
  std::atomic<std::int64_t> last_committed_ = -1;
  std::atomic<double> last_seconds_ = 0;
  std::int64_t attempts_ = 0;
};

}  // namespace trireme
