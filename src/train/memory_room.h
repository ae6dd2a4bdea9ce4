// Whether a run fits the memory it would take, known before a rank starts: memory is planned (cost/step_cost.h), so a
// model that is too large is refused while nothing has been written.
#pragma once

#include <span>

#include "comm/rank_runner.h"
#include "run/run_config.h"

namespace trireme {

// Bytes that all ranks of a run hold together, on their devices and in host memory.
std::int64_t MemoryOfRun(const RunConfig& config);

// What a run may take from the memory that it finds.
struct FitChoices {
  bool recompute = true;     // the least recomputation that fits
  bool micro_batch = false;  // with it the largest micro batch that fits, up to the batch
};
// `config` with layout.recompute, and layout.micro_batch where that is asked for, chosen so that the plan of every rank
// fits `room` bytes of its device (cost/step_cost.h has the numbers). Where nothing fits: as it was, with the most
// recomputation. Requires Validate(config, 0).
RunConfig Fitted(RunConfig config, std::int64_t room, const FitChoices& choices);
// Whether the plan of every rank fits `room` bytes of its device; false for what Validate refuses.
bool FitsDevices(const RunConfig& config, std::int64_t room);
// Bytes that a rank may plan with on a device of `memory` bytes that `ranks` ranks share: without what the vendor's
// libraries and the context take.
std::int64_t RoomOnDevice(std::int64_t memory, int ranks);

// An Error when the ranks of a run that shares one host's memory of `host_bytes` need more, naming the nearest change
// of the layout with which they fit. Requires Validate(config, 0).
void RequireRoom(const RunConfig& config, std::int64_t host_bytes);

// What ranks of one machine take of its memory.
struct HostNeeds {
  std::int64_t held = 0;    // what layout.offload puts there; all of a rank whose device is the host
  std::int64_t copied = 0;  // the copy that checkpoints are written from: 12 bytes a parameter that a rank saves
  std::int64_t total() const { return held + copied; }
};
struct HostUse {
  bool devices_are_hosts = false;
  bool saves = true;  // whether the run writes checkpoints
  bool holds = true;  // false: paced devices, whose tensors and checkpoints have no values
};
HostNeeds HostNeedsOf(const RunConfig& config, std::span<const int> ranks, const HostUse& use);
// An Error when they are more than `host_bytes`, which the kernel would answer by killing the run.
void RequireHostRoom(const RunConfig& config, std::span<const int> ranks, const HostUse& use, std::int64_t host_bytes);
// Both, for a run whose ranks all share one machine with `host_bytes`.
void RequireRoomOnOneMachine(const RunConfig& config, const HostUse& use, std::int64_t host_bytes);
// RequireHostRoom for the ranks that share this rank's machine. Collective over the world; ranks of a machine with room
// return while others throw (train/joint_refusal.h).
void RequireHostRoom(const RunConfig& config, RankContext& context, bool saves);

// SpareBytesOfRank of this rank's machine, with the plans of all ranks there. Collective over the world.
std::int64_t SpareHostBytes(const RunConfig& config, RankContext& context);

}  // namespace trireme
