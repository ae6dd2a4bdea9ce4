// What the checks have found. Each finding is kept once, however often its place is reached.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::cuda_on_cpu {

// `key`: findings with equal keys are one.
void Report(const std::string& key, const std::string& text);
// Those since the last call, in order; any thread.
std::vector<std::string> TakeFindings();

// The order of blocks, warps, lanes and streams: 1 ascending, 2 descending, others random. Set before any work.
void SetSeed(std::uint64_t seed);
std::uint64_t Seed();
// Uniform in [0, below), by the seed.
std::uint32_t Draw(std::uint32_t below);

}  // namespace trireme::cuda_on_cpu
