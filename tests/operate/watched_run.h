// A small run on thread ranks, in a folder, and what it does beside its mathematics. For tests of runs that stop and go
// on.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "operate/training_loop.h"

namespace trireme {

struct Watched {
  std::vector<StepResult> steps;
  std::int64_t total_steps = 0;
  StepFacts last;
  std::vector<double> validations;
  std::vector<std::string> notes;
  LoopEnd end = LoopEnd::kFinished;
  std::set<std::int64_t> samples;  // that were read
};

struct Session {
  std::int64_t stop_after = 0;  // asks for a stop after so many steps that have numbers; 0: never
  std::set<std::string> drop_state = {};
  // Changes each sample after it was read; a pure function of the index.
  std::function<void(std::int64_t index, Sample& sample)> change = {};
};

// Keys of a validated recipe: two layers of width 8, 100 steps of micro batches of one sample, no notes about spikes.
RunConfig TinyRun(const std::vector<std::string>& keys);

// Trains, or goes on, in `folder`.
Watched RunOn(const RunConfig& config, const std::string& folder, const Session& session = {});
inline Watched RunOn(const RunConfig& config, const std::string& folder, std::int64_t stop_after) {
  return RunOn(config, folder, Session{.stop_after = stop_after});
}

// The digest of the newest checkpoint's whole state.
std::string DigestIn(const std::string& folder);

// Rewrites the newest checkpoint's manifest, whose digest it corrects.
void EditManifest(const std::string& folder, const std::function<void(std::string& text)>& edit);

}  // namespace trireme
