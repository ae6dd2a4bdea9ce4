#include "train/first_weights.h"

#include <vector>

#include "checkpoint/read/weight_source.h"

namespace trireme {

void LoadFirstWeights(const std::string& path, Trainer& trainer) {
  const std::unique_ptr<WeightSource> weights = OpenWeights(path);
  std::vector<float> staging;
  for (const OwnedState& state : trainer.State()) {
    if (state.kind != StateKind::kMaster) {
      continue;
    }
    staging.assign(static_cast<std::size_t>(state.values.count()), 0.0F);
    weights->Read(trainer.table().rows()[static_cast<std::size_t>(state.row)], state.runs, staging.data());
    trainer.device().CopyFromHost(state.values.data, staging.data(), state.values.bytes());
  }
  trainer.Restore({});
}

}  // namespace trireme
