#include "checkpoint/save/checkpoint_saver.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <new>

#include "base/durable_file.h"
#include "base/error.h"
#include "checkpoint/read/checkpoint_folder.h"

namespace trireme {
namespace {

// Training threads come first where cores are short. On Linux the value belongs to the calling thread.
void YieldToTraining() {
  constexpr int kNiceness = 10;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNiceness);
}

}  // namespace

CheckpointSaver::CheckpointSaver(SaverOptions options) : options_(std::move(options)) {
  if (options_.rank == 0) {
    RemoveUnfinished(options_.folder);
  }
}

CheckpointSaver::~CheckpointSaver() {
  stop_ = true;
  Wait();
}

void CheckpointSaver::Wait() {
  hurry_ = true;
  if (worker_.joinable()) {
    worker_.join();
  }
}

void CheckpointSaver::WaitForShard() {
  hurry_ = true;
  shard_.wait(Shard::kWriting);
}

bool CheckpointSaver::ShardIsThere() const {
  // A part goes when it is joined with others, and what it was joined to then gets the shard's name: looked for in this
  // order, one of them is there.
  const auto there = [&] { return !IsGone(part_path_) || !IsGone(shard_path_ + ".part") || !IsGone(shard_path_); };
  return part_path_.empty() || (shard_ == Shard::kWritten && there());
}

void CheckpointSaver::Say(const std::string& text) const {
  if (options_.message) {
    options_.message(text);
  }
}

SaveTask CheckpointSaver::NextTask(std::int64_t step) {
  SaveTask task = {.folder = options_.folder,
                   .step = step,
                   .attempt = attempts_++,
                   .rank = options_.rank,
                   .ranks = options_.ranks,
                   .ranks_per_file = options_.ranks_per_file,
                   .read_back = options_.read_back,
                   .hook = options_.hook};
  part_path_ = task.part(task.rank);
  shard_path_ = task.shard(task.file());
  return task;
}

void CheckpointSaver::FailSave(std::int64_t step, const std::string& reason) {
  Wait();
  shard_ = Shard::kFailed;
  Abandon(NextTask(step), reason);
}

void CheckpointSaver::StartSave(RunState state, std::vector<SaveSlice> slices, bool at_once,
                                const std::string& device_choices) {
  Wait();
  Require(std::isfinite(state.loss_scale), "a loss scale of {} cannot be saved", state.loss_scale);
  SaveTask task = NextTask(state.step);
  task.hurry = at_once ? nullptr : &hurry_;
  task.device_choices = device_choices;
  hurry_ = false;
  lost_ = -1;
  shard_ = Shard::kWriting;
  under_way_ = true;
  state.ranks = options_.ranks;
  worker_ = std::thread([this, at_once, task = std::move(task), state = std::move(state), slices = std::move(slices)] {
    if (!at_once) {
      YieldToTraining();
    }
    Save(task, state, slices);
    under_way_ = false;
  });
}

bool CheckpointSaver::Attempt(const SaveTask& task, const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (const std::bad_alloc&) {
    Abandon(task, "the host has no memory left");
  } catch (const std::exception& error) {
    Abandon(task, error.what());
  }
  return false;
}

void CheckpointSaver::Save(const SaveTask& task, const RunState& state, const std::vector<SaveSlice>& slices) {
  const auto start = std::chrono::steady_clock::now();
  RemovePruned();
  const bool written = Attempt(task, [&] { WriteShard(task, slices); });
  shard_ = written ? Shard::kWritten : Shard::kFailed;
  shard_.notify_all();
  if (written && Attempt(task, [&] { Finish(task, state); })) {
    Prune(task);
    last_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
}

void CheckpointSaver::Finish(const SaveTask& task, const RunState& state) {
  const CommitLimits limits{.seconds = options_.commit_seconds, .stop = &stop_, .lost = &lost_};
  if (task.ranks_per_file > 1 && task.leads()) {
    JoinParts(task, limits);
  }
  if (task.rank == 0) {
    CommitCheckpoint(task, state, limits);
    last_committed_ = task.step;
  } else if (IndexesGroup(task)) {
    WriteGroupIndex(task, limits);
  }
}

void CheckpointSaver::RemovePruned() const {
  if (options_.ranks > kCommitFan) {
    RemovePrunedPart(options_.folder, options_.rank, options_.ranks);
  }
}

void CheckpointSaver::Prune(const SaveTask& task) {
  if (task.rank != 0) {
    return;
  }
  try {
    task.Reached(SavePoint::kPrune);
    // What is left of checkpoints pruned before, as all ranks have removed their parts; a rank that was too late for an
    // earlier save may have left its shard, and one that is ahead writes a later step.
    RemoveUnfinished(options_.folder, task.step);
    PruneCheckpoints(options_.folder, options_.keep, options_.ranks > kCommitFan ? Removal::kByRanks : Removal::kNow);
  } catch (const std::exception& error) {
    Say(fmt::format("checkpoint of step {} is saved, but older ones could not be removed: {}", task.step,
                    error.what()));
  }
}

void CheckpointSaver::Abandon(const SaveTask& task, const std::string& reason) {
  if (task.rank == 0) {
    RemoveTree(task.unfinished());
    const auto kept = ListCheckpoints(options_.folder);
    Say(fmt::format("checkpoint of step {} failed: {}; {}", task.step, reason,
                    kept.empty() ? "there is no older checkpoint"
                                 : fmt::format("the newest checkpoint is that of step {}", kept.front().step)));
    return;
  }
  // Rank 0 speaks for all where it can learn of this; a folder that is gone means that it has spoken already.
  const auto gone = [&] {
    std::error_code error;
    return !std::filesystem::exists(task.unfinished(), error) && std::filesystem::exists(task.folder, error);
  };
  if (!gone() && !LeaveFailure(task, reason) && !gone()) {
    Say(fmt::format("checkpoint of step {} failed on rank {}: {}", task.step, task.rank, reason));
  }
}

}  // namespace trireme
