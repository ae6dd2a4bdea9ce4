// What a run counts and measures of itself for its observers: memory of the ranks, FLOPs of a step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/accounting.h"
#include "run/run_config.h"
#include "train/trainer.h"

namespace trireme {

// By rank, what it holds; equal on every rank. Collective over the trainer's world.
std::vector<MemoryUse> GatherMemory(Trainer& trainer);

// What the trainer's device holds against what was planned for this rank, in words; "" for devices that do not tell.
// `sharing` ranks of one GPU are taken to hold alike.
std::string CompareDeviceMemory(Trainer& trainer, const MemoryUse& planned, int sharing);

// FLOPs of one step over all ranks, recomputation included.
double HardwareFlops(const RunConfig& config, std::int64_t global_batch);

}  // namespace trireme
