// What a run counts and measures of itself for its observers: memory of the ranks, FLOPs of a step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/accounting.h"
#include "run/run_config.h"
#include "train/trainer.h"

namespace trireme {

// By rank, what it holds, on rank 0; nothing on others. Collective over the trainer's world.
std::vector<MemoryUse> CollectMemory(Trainer& trainer);

// Bytes of one device, of all ranks that share it.
struct DeviceMemoryFacts {
  std::int64_t used = 0;                   // of all programs, as the driver says
  std::int64_t arena = 0;                  // the ranks' plans, which are what they allocate
  std::int64_t communication_planned = 0;  // cost/communication_memory.h; 0: ranks do not meet over NCCL
  std::int64_t communication = 0;          // measured when communicators were made
  std::int64_t workspaces = 0;             // of vendor libraries
};
std::string Describe(const DeviceMemoryFacts& facts);

// What the trainer's device holds against what was planned for this rank, in words; "" for devices that do not tell.
// `sharing` ranks of one GPU are taken to hold alike.
std::string CompareDeviceMemory(Trainer& trainer, const MemoryUse& planned, int sharing);

// FLOPs of one step over all ranks, recomputation included.
double HardwareFlops(const RunConfig& config, std::int64_t global_batch);

}  // namespace trireme
