// What is decided before a run writes anything: whether the machines can run it, with which fp8 products and how much
// recomputation, whose folder it is, when it must end.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "comm/rank_runner.h"
#include "run/run_config.h"
#include "topology/layout.h"
#include "train/memory_room.h"

namespace trireme {

// An Error for what this machine cannot run: no such device, too many ranks as threads, not enough memory. by_threads:
// all ranks are threads of this process; ranks of other processes may be on other machines.
void RequireMachine(const RunConfig& config, bool by_threads, bool saves);

// For ranks of several processes what RequireMachine and the lock are for threads of one: first what the machines can
// run, then, only if they can, the lock, which rank 0 takes. False, on every rank, when any refuses the run: that rank
// says why on standard error. Collective over the world.
bool ProcessesMayStart(const RunConfig& config, RankContext& context, bool saves,
                       const std::function<void()>& take_lock);

// layout.recompute = "auto", --fit and train.fp8_products = "auto", for a run that starts: a run that goes on keeps
// what its folder's run.toml says.
class MemoryChoices {
 public:
  MemoryChoices(const Recipe& recipe, bool fit, const std::string& folder);

  // Recomputation and micro batch, for ranks that may plan with `room` bytes each; 0: unknown.
  RunConfig Choose(const RunConfig& config, std::int64_t room) const;
  // Chooses fp8 products too: `choose` names the faster ones for the micro batch of its argument. Memory is fitted to
  // the chosen products, also in a folder whose run.toml says nothing of them. Where their plan does not fit `room` and
  // that of all products in fp8 does, these are taken.
  using ProductChoice = std::function<std::string(const RunConfig& config)>;
  RunConfig Choose(const RunConfig& config, std::int64_t room, const ProductChoice& choose) const;
  // Rank 0 chooses for all ranks, whatever they find in their folders: for the rank with the least room, with
  // ChooseFloat8Products on its own device. Collective over the world; every rank takes part in the same collectives.
  RunConfig ChooseForDevices(const RunConfig& config, RankContext& context) const;

 private:
  RunConfig FittedTo(const RunConfig& config, std::int64_t room) const;
  // None: the folder's run.toml says nothing of them.
  std::optional<std::string> PinnedProducts() const;

  FitChoices choices_;
  std::optional<RunConfig> pinned_;
};

// An Error when one of the folders that a run writes inside its own is a symbolic link; checkpoints/ may be one.
void RefuseLinkedFolders(const std::string& run_folder);

// When the job ends, in nanoseconds of the wall clock: after `walltime` seconds or, where that is 0, at
// SLURM_JOB_END_TIME. 0: not known.
std::int64_t JobEnd(double walltime);
// When the run must have saved and left: `exit_before` seconds before the job ends. 0: never.
std::int64_t LeaveBefore(double exit_before, std::int64_t job_ends_ns);

}  // namespace trireme
