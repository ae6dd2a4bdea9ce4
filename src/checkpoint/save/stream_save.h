// Writes a checkpoint from one process, tensor by tensor, without holding it: for convert and import. The same protocol
// as a run's save, so that a kill leaves nothing that looks like a checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"

namespace trireme {

struct StreamSave {
  std::string folder;  // of checkpoints; the result is folder/step-N, which must not exist
  RunState state;
  std::vector<ManifestTensor> tensors;  // each is saved whole, or cut evenly over the shards
  std::int64_t shards = 1;
  // Fills `out` with elements [first, first + out.size()) of tensor `index`. Asked in ascending order within a shard.
  std::function<void(std::size_t index, std::int64_t first, std::span<float> out)> read;
};
// Returns the path of the checkpoint.
std::string SaveStream(const StreamSave& save);

}  // namespace trireme
