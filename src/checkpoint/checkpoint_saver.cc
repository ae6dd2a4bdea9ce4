#include "checkpoint/checkpoint_saver.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <new>

#include "base/durable_file.h"
#include "base/error.h"
#include "checkpoint/checkpoint_folder.h"

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

void CheckpointSaver::Say(const std::string& text) const {
  if (options_.message) {
    options_.message(text);
  }
}

SaveTask CheckpointSaver::NextTask(std::int64_t step) {
  return {.folder = options_.folder,
          .step = step,
          .attempt = attempts_++,
          .rank = options_.rank,
          .ranks = options_.ranks,
          .read_back = options_.read_back,
          .hook = options_.hook};
}

void CheckpointSaver::FailSave(std::int64_t step, const std::string& reason) {
  Wait();
  Abandon(NextTask(step), reason);
}

void CheckpointSaver::StartSave(RunState state, std::vector<SaveSlice> slices, bool at_once) {
  Wait();
  Require(std::isfinite(state.loss_scale), "a loss scale of {} cannot be saved", state.loss_scale);
  SaveTask task = NextTask(state.step);
  task.hurry = options_.asynchronous && !at_once ? &hurry_ : nullptr;
  hurry_ = false;
  state.ranks = options_.ranks;
  auto save = [this, task = std::move(task), state = std::move(state), slices = std::move(slices)] {
    Save(task, state, slices);
  };
  if (!options_.asynchronous || at_once) {
    save();
    return;
  }
  worker_ = std::thread([save = std::move(save)] {
    YieldToTraining();
    save();
  });
}

void CheckpointSaver::Save(const SaveTask& task, const RunState& state, const std::vector<SaveSlice>& slices) {
  const auto start = std::chrono::steady_clock::now();
  try {
    WriteShard(task, slices);
    if (task.rank == 0) {
      CommitCheckpoint(task, state, {.seconds = options_.commit_seconds, .stop = &stop_});
      last_committed_ = task.step;
    }
  } catch (const std::bad_alloc&) {
    Abandon(task, "the host has no memory left");
    return;
  } catch (const std::exception& error) {
    Abandon(task, error.what());
    return;
  }
  Prune(task);
  last_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void CheckpointSaver::Prune(const SaveTask& task) {
  if (task.rank != 0) {
    return;
  }
  try {
    task.At(SavePoint::kPrune);
    PruneCheckpoints(options_.folder, options_.keep);
    // A rank that was too late for an earlier save may have left its shard; one that is ahead writes a later step.
    RemoveUnfinished(options_.folder, task.step);
  } catch (const std::exception& error) {
    Say(fmt::format("checkpoint of step {} is saved, but older ones could not be removed: {}", task.step,
                    error.what()));
  }
}

void CheckpointSaver::Abandon(const SaveTask& task, const std::string& reason) {
  if (task.rank == 0) {
    RemoveTree(task.unfinished());
    const auto kept = ListCheckpoints(options_.folder);
    Say(fmt::format("checkpoint of step {} failed: {}; training goes on, {}", task.step, reason,
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
    Say(fmt::format("checkpoint of step {} failed on rank {}: {}; training goes on", task.step, task.rank, reason));
  }
}

}  // namespace trireme
