// Trained state that a run would lose by going on from a checkpoint under another recipe. A change of layout, device,
// offload, precision of moments, gradient compression, batch, sequence length or learning rate loses none.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "run/run_config.h"

namespace trireme {

// A part of the state, as --drop-state names it:
//   layers      blocks that the recipe's model has not
//   heads       heads of attention: the matrices are stored, but the recipe cuts them into other heads
//   output      an output table that the recipe ties to the token table
//   adapters    adapters of products that have none in the recipe
//   parameters  any other parameter that the recipe's model has not
//   optimizer   moments and the count of updates: those of another optimizer, or of other parameters
struct DroppedState {
  std::string part;
  std::string reason;  // "2 blocks, of 24 tensors: the model has 2 layers, the checkpoint's has 4"
};

// The state that a checkpoint of a run of this recipe holds, sorted by kind, then name; requires a valid config.
std::vector<ManifestTensor> StateTensors(const RunConfig& config);

// What a run of `config` drops of the checkpoint, one entry a part in the order above. A checkpoint of weights alone
// has no optimizer's state to drop. An Error when the checkpoint lacks weights of the model, or has them in other
// shapes: no option makes up for that.
std::vector<DroppedState> FindDroppedState(const Manifest& manifest, const std::string& folder,
                                           const RunConfig& config);

// Names of --drop-state, "layers,optimizer". An Error lists the known ones.
std::set<std::string> ParseDropState(const std::string& text);

// An Error unless every part that `config` drops is in `allowed`: it says what is lost, and how to go on.
void RequireStateKept(const Manifest& manifest, const std::string& folder, const RunConfig& config,
                      const std::set<std::string>& allowed);

// Asks this of the newest checkpoint in a folder of them whose manifest is good, if it has one. Opens no shard.
void RequireStateKept(const std::string& checkpoints, const RunConfig& config, const std::set<std::string>& allowed);

// "layers (24 tensors, …), optimizer (…)".
std::string ToText(const std::vector<DroppedState>& dropped);

}  // namespace trireme
