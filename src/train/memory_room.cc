#include "train/memory_room.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "base/units.h"
#include "comm/ledger.h"
#include "cost/communication_memory.h"
#include "cost/step_cost.h"
#include "device/host_memory.h"
#include "train/gather_numbers.h"
#include "train/owned_state.h"

namespace trireme {
namespace {

bool Fits(const RunConfig& config, std::int64_t host_bytes) {
  try {
    Validate(config, 0);
  } catch (const Error&) {
    return false;
  }
  return MemoryOfRun(config) <= host_bytes;
}

// A smaller micro batch costs nothing but speed; recomputing comes next.
std::string NearestThatFits(RunConfig config, std::int64_t host_bytes) {
  const int micro_batch = config.layout.micro_batch;
  for (const bool recompute : {false, true}) {
    if (recompute) {
      config.layout.recompute = Recompute::kFull;
      config.layout.recompute_layers = 0;
    }
    for (int smaller = micro_batch; smaller >= 1; --smaller) {
      config.layout.micro_batch = smaller;
      if (micro_batch % smaller == 0 && Fits(config, host_bytes)) {
        return fmt::format("; layout.micro_batch = {}{} would fit", smaller,
                           recompute ? " with layout.recompute = 'full'" : "");
      }
    }
  }
  return "; no micro batch fits: take a smaller model, or more machines (`trireme plan --max-size`)";
}

// Host memory of each of the stage's ranks, as far as they save.
HostNeeds NeedsOfStage(const RunConfig& config, int pipeline, const HostUse& use) {
  const StageOfRun stage(config, pipeline, config.batch.global);
  const MemoryUse memory = MemoryOfStage(stage.description());
  HostNeeds needs;
  needs.held = use.holds ? memory[MemoryKind::kHost] + (use.devices_are_hosts ? memory.total() : 0) : 0;
  if (!use.holds) {
    return needs;  // nor do checkpoints hold values
  }
  const ShardPlan& shards = stage.description().shards;
  for (const Bucket& bucket : shards.buckets) {
    if (bucket.tied && !shards.counts_tied) {
      continue;
    }
    const std::int64_t owned = OwnedCount(bucket, config.layout.zero);
    const OptimizerPlan& optimizer = stage.description().optimizer;
    needs.copied += SizeOf(DType::kFloat32) * (owned + optimizer.Moments(bucket, false, config.layout.zero, {}).count +
                                               optimizer.Moments(bucket, true, config.layout.zero, {}).count);
  }
  return needs;
}

}  // namespace

std::int64_t RoomOnDevice(std::int64_t memory, int ranks) {
  // A CUDA context with the kernels of the libraries, their workspaces, and what a pool rounds up.
  constexpr std::int64_t kReserve = std::int64_t{2} << 30;
  constexpr std::int64_t kShare = 20;  // one part in so many
  return std::max<std::int64_t>(memory - memory / kShare - kReserve, 0) / ranks;
}

bool FitsDevices(const RunConfig& config, std::int64_t room) {
  try {
    Validate(config, 0);
  } catch (const Error&) {
    return false;
  }
  for (int pipeline = 0; pipeline < config.layout.pipeline; ++pipeline) {
    const StageOfRun stage(config, pipeline, config.batch.global);
    if (MemoryOfStage(stage.description()).total() + CommunicationOf(stage.description()).total() > room) {
      return false;
    }
  }
  return true;
}

RunConfig Fitted(RunConfig config, std::int64_t room, const FitChoices& choices) {
  std::vector<Recompute> levels = {config.layout.recompute};
  if (choices.recompute) {
    levels = {Recompute::kNone, Recompute::kLight, Recompute::kSelective, Recompute::kFull};
  }
  const int given = config.layout.micro_batch;
  const std::int64_t most = config.batch.global / config.layout.data;
  for (const Recompute level : levels) {
    config.layout.recompute = level;
    for (std::int64_t micro_batch = choices.micro_batch ? most : given; micro_batch >= given; --micro_batch) {
      config.layout.micro_batch = static_cast<int>(micro_batch);
      if ((micro_batch == given || most % micro_batch == 0) && FitsDevices(config, room)) {
        return config;
      }
    }
  }
  config.layout.micro_batch = given;
  return config;
}

std::int64_t MemoryOfRun(const RunConfig& config) {
  std::int64_t bytes = 0;
  for (int pipeline = 0; pipeline < config.layout.pipeline; ++pipeline) {
    const MemoryUse use = MemoryOfStage(StageOfRun(config, pipeline, config.batch.global).description());
    bytes += use.total() + use[MemoryKind::kHost];
  }
  return bytes * config.layout.tensor * config.layout.replicas();
}

void RequireRoom(const RunConfig& config, std::int64_t host_bytes) {
  const std::int64_t bytes = MemoryOfRun(config);
  if (bytes > host_bytes) {
    Fail("the {} ranks need {:.1f} GiB of memory, this machine has {:.1f}{}", config.layout.ranks(),
         static_cast<double>(bytes) / kGibi, static_cast<double>(host_bytes) / kGibi,
         NearestThatFits(config, host_bytes));
  }
}

HostNeeds HostNeedsOf(const RunConfig& config, std::span<const int> ranks, const HostUse& use) {
  const ProcessGrid grid(config.layout);
  std::map<int, HostNeeds> of_stages;
  HostNeeds needs;
  for (const int rank : ranks) {
    const Coordinate place = grid.CoordinateOf(rank);
    const auto [stage, added] = of_stages.try_emplace(place.pipeline);
    if (added) {
      stage->second = NeedsOfStage(config, place.pipeline, use);
    }
    needs.held += stage->second.held;
    // Without ZeRO the first replica saves for all, with hybrid sharding the first group.
    const int savers = ZeroShards(config.layout.zero).optimizer ? config.layout.shards() : 1;
    needs.copied += use.saves && grid.ReplicaOf(place) < savers ? stage->second.copied : 0;
  }
  return needs;
}

void RequireHostRoom(const RunConfig& config, std::span<const int> ranks, const HostUse& use, std::int64_t host_bytes) {
  const HostNeeds needs = HostNeedsOf(config, ranks, use);
  if (needs.total() > host_bytes) {
    const auto gib = [](std::int64_t bytes) { return static_cast<double>(bytes) / kGibi; };
    Fail(
        "the {} ranks of this machine need {:.1f} GiB of its memory ({:.1f} to hold, {:.1f} for the copy that "
        "checkpoints are written from), it has {:.1f}; take {}a smaller model, more machines, or fewer ranks on each",
        ranks.size(), gib(needs.total()), gib(needs.held), gib(needs.copied), gib(host_bytes),
        (config.layout.offload == Offload::kNone || use.devices_are_hosts ? "" : "layout.offload = 'none', ") +
            std::string(config.layout.offload_activations ? "layout.offload_activations = false, " : ""));
  }
}

void RequireRoomOnOneMachine(const RunConfig& config, const HostUse& use, std::int64_t host_bytes) {
  if (use.devices_are_hosts) {
    RequireRoom(config, host_bytes);
  }
  std::vector<int> all(static_cast<std::size_t>(config.layout.ranks()));
  std::iota(all.begin(), all.end(), 0);
  RequireHostRoom(config, all, use, host_bytes);
}

namespace {

// The ranks of the world that share this rank's machine. Collective.
std::vector<int> RanksOfThisMachine(RankContext& context) {
  // Containers and badly named machines may share a name: what the kernel drew when it started tells those apart.
  const std::string identity = HostName() + " " + ReadProcessFile("/proc/sys/kernel/random/boot_id");
  const auto machine = static_cast<std::int64_t>(RandomKey(0, identity));
  const auto machines = GatherNumbers(context.world, context.device, {machine});
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < machines.size(); ++rank) {
    if (machines[rank].front() == machine) {
      ranks.push_back(static_cast<int>(rank));
    }
  }
  return ranks;
}

}  // namespace

std::int64_t SpareHostBytes(const RunConfig& config, RankContext& context) {
  const std::vector<int> ranks = RanksOfThisMachine(context);
  const HostNeeds needs = HostNeedsOf(config, ranks, {.devices_are_hosts = context.device.is_host()});
  return SpareBytesOfRank(needs.total(), static_cast<std::int64_t>(ranks.size()));
}

void RequireHostRoom(const RunConfig& config, RankContext& context, bool saves) {
  const std::vector<int> ranks = RanksOfThisMachine(context);
  RequireHostRoom(config, ranks, {.devices_are_hosts = context.device.is_host(), .saves = saves}, HostMemoryBytes());
}

}  // namespace trireme
