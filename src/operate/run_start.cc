#include "operate/run_start.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "comm/ledger.h"
#include "device/host_memory.h"
#include "operate/joint_refusal.h"
#include "train/memory_room.h"

namespace trireme {
namespace {

// False, on every rank, when `check` refuses the run on any: that rank says why.
bool AllMayStart(RankContext& context, const std::function<void()>& check) {
  const JointRefusal refusal = RefusedByAny(context, check);
  if (!refusal.reason.empty()) {
    std::fprintf(stderr, "trireme: rank %d: %s\n", context.world.rank(), refusal.reason.c_str());
  }
  return !refusal.refused;
}

}  // namespace

void RequireMachine(const RunConfig& config, bool by_threads, bool saves) {
  RequireDevice(config.train.device);
  if (!by_threads) {
    return;
  }
  const int ranks = config.layout.ranks();
  Require(ranks <= kMostThreadRanks, "{} ranks are more than the {} that run as threads of one process; use mpirun",
          ranks, kMostThreadRanks);
  RequireRoomOnOneMachine(config, {.devices_are_hosts = IsHostDevice(config.train.device), .saves = saves},
                          HostMemoryBytes());
}

bool ProcessesMayStart(const RunConfig& config, RankContext& context, bool saves,
                       const std::function<void()>& take_lock) {
  return AllMayStart(context,
                     [&] {
                       Validate(config, context.world.size());
                       RequireHostRoom(config, context, saves);
                     }) &&
         AllMayStart(context, [&] {
           if (context.world.rank() == 0) {
             take_lock();
           }
         });
}

std::int64_t LeaveBefore(double exit_before, double walltime) {
  const char* const end = std::getenv("SLURM_JOB_END_TIME");
  if (exit_before <= 0) {
    return 0;
  }
  Require(
      walltime > 0 || end != nullptr,
      "--exit-before {} needs to know when the time is up: SLURM_JOB_END_TIME is not set, so give --walltime SECONDS",
      exit_before);
  const std::int64_t now = WallNanoseconds();
  const double until = walltime > 0 ? static_cast<double>(now) + walltime * 1e9 : std::strtod(end, nullptr) * 1e9;
  return std::max(now, static_cast<std::int64_t>(until - exit_before * 1e9));
}

}  // namespace trireme
