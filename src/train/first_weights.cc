#include "train/first_weights.h"

#include <vector>

#include "checkpoint/read/weight_source.h"

namespace trireme {

void LoadFirstWeights(const std::string& path, Trainer& trainer) {
  const std::unique_ptr<WeightSource> weights = OpenWeights(path);
  std::vector<float> staging;
  for (const OwnedState& state : trainer.JoinState()) {
    const Parameter& parameter = trainer.table().rows()[static_cast<std::size_t>(state.row)];
    // Adapters that the weights come without start as they were drawn.
    const bool new_adapter =
        !parameter.frozen && trainer.config().model.adapter.any() && !weights->model().adapter.any();
    if (state.kind != StateKind::kMaster || new_adapter) {
      continue;
    }
    staging.assign(static_cast<std::size_t>(state.values.count()), 0.0F);
    weights->Read(parameter, state.runs, staging.data());
    CopyValues(trainer.device(), staging, state.values);
  }
  trainer.Restore({});
}

}  // namespace trireme
