// Faults on purpose: `trireme train --inject "rank=1,step=3,what=stop"`. Operators rehearse with it, and tests/faults
// proves with it that runs survive. A drill happens once (or `times`) in the life of a run folder, restarts included.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "checkpoint/save/save_steps.h"
#include "device/device.h"
#include "run/run_config.h"
#include "train/zero_shard.h"

namespace trireme {

struct Drill {
  int rank = 0;
  std::int64_t step = 1;
  std::string phase = "forward";  // of the ledger: start load batch receive forward send backward reduce norm update …
  std::string save;               // a point of a save instead of a phase: see Name(SavePoint)
  // stop | sleep | spin | throw | exit | kill | nan | overflow | loss | flip | flip-gradient | flip-moment | slow; ""
  // is no drill
  std::string what;
  int times = 1;
};

// "rank=1,step=3,phase=backward,what=spin,times=2", "rank=0,step=4,save=mid-manifest,what=kill"; "" is no drill.
Drill ParseDrill(const std::string& text);

// Why the drill cannot act in such a run, in words; "" where it can. `folder` as DrillMaster has it.
std::string WhyIdle(const Drill& drill, const RunConfig& config, const std::string& folder);
// Whether it has ever acted in this folder; "slow" leaves no mark and counts as having acted.
bool HasActed(const Drill& drill, const std::string& folder);

// One rank's part in it. Used from the rank's thread, AtSave() also from the one that saves.
class DrillMaster {
 public:
  // What the drill can damage: asked for when it does. Device and function outlive this.
  struct Target {
    Device& device;
    std::function<LiveTensors()> live;
  };
  // Remembers in `folder` how often the drill has happened.
  DrillMaster(Drill drill, int rank, std::string folder, Target target);

  bool active() const { return mine_; }
  void AtPhase(std::int64_t step, std::string_view phase);
  void AtSave(std::int64_t step, SavePoint point);

 private:
  void Do();
  // Whether `what` is a damage to the numbers of a step; then it is done.
  bool Damaged() const;
  bool TakeTurn() const;

  Drill drill_;
  bool mine_;
  std::string folder_;
  Target target_;
};

}  // namespace trireme
