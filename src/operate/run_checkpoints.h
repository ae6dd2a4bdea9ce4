// A run's checkpoints as the trainer sees them: saves its owned state while training goes on, and loads the newest good
// checkpoint under whatever layout the run has now. One object a rank, used from the rank's thread; every rank makes
// the same calls. All but Reserve() and what only asks are collective over the world.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/read/checkpoint_folder.h"
#include "checkpoint/read/checkpoint_reader.h"
#include "checkpoint/read/dropped_state.h"
#include "checkpoint/save/checkpoint_saver.h"
#include "comm/communicator.h"
#include "device/device.h"
#include "run/run_config.h"
#include "run/run_schedule.h"
#include "train/owned_state.h"

namespace trireme {

struct RunCheckpointOptions {
  std::string folder;  // RUN/checkpoints
  RunConfig config;
  std::set<std::string> drop_state = {};  // parts of a checkpoint's state that Load() may drop, see DroppedState
  // Failures of saves, from the saving thread; and what Load() found. Rank 0 speaks for all where it can.
  std::function<void(const std::string&)> message;
  SaveHook hook;                // tests stop a save with it
  std::function<void()> alive;  // called after each tensor that is copied or read, on the rank's thread
};

// The run's own numbers: what it saves besides the state of its tensors.
struct SavedProgress : RunPosition {
  std::int64_t updates = 0;
  double loss_scale = 1;
  ScheduleState schedule;
  std::string device_choices;  // how this rank's device does its operations; each rank has its own
  std::map<std::string, std::string> notes;
  bool last = false;  // the run ends with this save: it is written at once
};

struct LoadedCheckpoint {
  SavedProgress progress;
  std::string folder;                    // step-000123's path
  std::vector<std::string> differences;  // "layout.tensor: 2 -> 4": keys whose values changed since the save
  std::set<std::string> changed;         // those keys
  bool weights_only = false;             // no moments were saved: they are zero
  std::vector<DroppedState> dropped;     // as options.drop_state allows
};

// How long the last save of a run is tried again for when it fails.
struct LastSaveLimits {
  double seconds = 0;
  std::int64_t until_ns = 0;       // on the wall clock, when the job must be over; 0: no such time
  std::function<bool()> given_up;  // asked on every rank while it waits; may be empty
};

class RunCheckpoints {
 public:
  // Collective over the world. Everything referred to outlives this. Rank 0 removes what an earlier process left
  // unfinished.
  RunCheckpoints(RunCheckpointOptions options, Communicator& world, Device& device, const ParameterTable& table);
  // Does not wait for other ranks: call Finish() before the end of a run.
  ~RunCheckpoints();
  RunCheckpoints(const RunCheckpoints&) = delete;
  RunCheckpoints& operator=(const RunCheckpoints&) = delete;

  // Optional: touches the memory of the snapshot before the first save, which is otherwise slower than the next ones.
  // Every call of an object is about the same states.
  void Reserve(std::span<const OwnedState> states);

  // Copies the state and returns; a thread writes it. The only stall is the copy, unless the save before is still
  // being written: then this waits for it, and a message says so once should a tenth of the time go there. A step that
  // this object has saved last is not saved again. Without memory for the copy the save fails with a message, and
  // training goes on. A run's folder that was removed is made anew, and a message says so.
  void Save(const SavedProgress& progress, std::span<const OwnedState> states);
  // Save() and Settle() at the end of a run or of a stage, after which the state is gone. A save that fails is tried
  // again until one succeeds or the limits are reached; messages say what is missing where, and how long this goes on.
  // Whether the checkpoint is there, equal on every rank.
  bool SaveLast(const SavedProgress& progress, std::span<const OwnedState> states, const LastSaveLimits& limits);
  // What a checkpoint of all ranks' states takes on the disk, equal on every rank; less than one in a thousand is left
  // out.
  std::int64_t BytesOfCheckpoint(std::span<const OwnedState> states);
  // Returns when every rank has written its part of the last save; on rank 0, when the checkpoint is there or has
  // failed. It fails at once if what any rank wrote has been removed.
  void Settle();
  // Settle() before the end of a run; then rank 0 removes what ranks left that were late for a save which failed.
  void Finish();
  // Seconds that the last Save() held up the training, the wait for the save before included.
  double stall_seconds() const { return stall_seconds_; }
  std::int64_t last_committed() const { return saver_.last_committed(); }

  // The newest good one, without reading its data.
  static std::optional<FoundCheckpoint> FindNewest(const std::string& folder) { return trireme::FindNewest(folder); }

  // Collective over the world. Writes the newest good checkpoint into `states` (saved or not), every value checked
  // against its digest. When one rank finds damage, all fall back to the checkpoint before, and rank 0's message says
  // why.
  // An Error when the recipe would drop state of the checkpoint that options.drop_state does not name
  // (RequireStateKept); without the optimizer's state moments and the count of updates start at zero. Nothing when the
  // folder has no checkpoint; an Error when it has some and none is good, so that no run starts over by accident. After
  // it the trainer publishes its weights.
  std::optional<LoadedCheckpoint> Load(std::span<const OwnedState> states);

 private:
  using Clock = std::chrono::steady_clock;

  // Takes memory for the snapshot and describes what lies where in it.
  void PlanSnapshot(std::span<const OwnedState> states);
  void Snapshot(std::span<const OwnedState> states);
  // `tensor` nullptr: zeros.
  void ReadInto(const CheckpointReader& reader, const StoredTensor* tensor, const OwnedState& state,
                std::vector<float>& staging);
  // A checkpoint that rank 0 has opened: its step, and what CheckpointReader::Pack says of it. Step -1: none is good,
  // and why.
  struct Offer {
    std::int64_t step = -1;
    std::string content = {};                        // on rank 0
    std::shared_ptr<const std::string> shared = {};  // both, as all ranks get them
  };
  // The newest at or below `at_most` with a manifest and an index, or headers of all shards, that are good.
  Offer FindOffer(std::int64_t at_most) const;
  Offer ShareOffer(const Offer& mine);
  // Opens a checkpoint, or reads it; what is damaged, "" when nothing is.
  std::string TryOpen(const Offer& offer, std::optional<CheckpointReader>& reader) const;
  std::string TryRead(const CheckpointReader& reader, std::span<const OwnedState> states, LoadedCheckpoint& loaded);
  std::int64_t Smallest(std::int64_t mine);
  std::int64_t Reduced(std::int64_t mine, ReduceOp op);
  // A message of the saver.
  void HearSaver(const std::string& text);
  // Whether the save of this step is there, equal on every rank.
  bool IsSaved(std::int64_t step);
  // After a failure of the last save: false when it must not be tried again, equal on every rank.
  bool AwaitAnotherTry(int tries, Clock::time_point first_try, std::int64_t bytes, const LastSaveLimits& limits);
  // Settle() for a save that is due, and what came before it.
  void AwaitSaveBefore(std::int64_t step);
  void JudgeWait(Clock::duration waited);
  void Say(const std::string& text) const;
  void Alive() const;

  RunCheckpointOptions options_;
  Communicator& world_;
  Device& device_;
  const ParameterTable& table_;
  RunState about_run_;                 // what is the same in every save
  std::int64_t* exchanged_ = nullptr;  // on the device, for one number; taken once, as a full device may have no more
  std::vector<float> snapshot_;
  std::vector<SaveSlice> slices_;  // of the snapshot
  double stall_seconds_ = 0;
  std::int64_t last_started_ = -1;
  std::int64_t last_loaded_ = -1;
  std::int64_t saves_ = 0;
  Clock::time_point first_save_;
  Clock::duration waited_{};  // for saves that were still being written when the next was due
  bool wait_told_ = false;
  Clock::time_point last_told_;            // of the last save that is tried again
  std::atomic<bool> tries_again_ = false;  // the saver's messages are kept, not told
  std::vector<std::string> untold_;        // by the thread that saves; read after Settle()
  CheckpointSaver saver_;                  // last: its thread reads the snapshot
};

}  // namespace trireme
