// A random run: a model of any family, any layout and features that go together, another layout to go on under, and a
// fault of the environment. A function of its seed.
#pragma once

#include <cstdint>
#include <string>

#include "run/run_config.h"

namespace trireme::compositions {

enum class FaultKind : std::uint8_t {
  kFull,    // the disk is full from some call on, for a while or for good
  kError,   // a call fails with EIO
  kKill,    // SIGKILL at some call
  kDamage,  // the newest checkpoint is damaged between two starts
};
constexpr int kFaultKinds = 4;
const char* Name(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::kKill;
  double moment = 0;       // which call of the run is struck (kDamage: which byte), as a share of all
  std::int64_t calls = 1;  // that are struck
  bool cuts = false;       // kDamage: the file ends there; otherwise a bit is flipped
};

struct Composition {
  std::uint64_t seed = 0;
  RunConfig config;
  ParallelLayout other;  // another layout that can train the same
  Fault fault;
  bool documents = false;  // reads a dataset that the judge writes: config.data.source is its place
};

// Steps of a composition's run, and between its checkpoints.
constexpr std::int64_t kSteps = 4;
constexpr std::int64_t kEvery = 2;

// `folder`: where datasets of compositions lie (WriteDocuments).
Composition Draw(std::uint64_t seed, const std::string& folder);

// The recipe is valid for its own number of ranks.
bool IsValid(const RunConfig& config);

// How far a run may be from one of another layout, relative: rounding is all that differs, which some features magnify.
struct Tolerance {
  double loss = 2e-5;
  double weights = 2e-5;
};
Tolerance ToleranceOf(const RunConfig& config);

// This run on one rank and in one stage: the stages of compositions differ in their layouts alone.
RunConfig OnOneRank(const RunConfig& config);

}  // namespace trireme::compositions
