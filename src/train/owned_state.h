// The fp32 state that one rank owns, as checkpoints see it: each element of each parameter is owned by exactly one rank
// of the world (data ranks share by shard, replicated slices belong to tensor rank 0, a tied table to the first stage).
#pragma once

#include <vector>

#include "device/tensor.h"
#include "model/parameter_table.h"

namespace trireme {

enum class StateKind : std::uint8_t { kMaster, kFirstMoment, kSecondMoment };
inline constexpr int kStateKinds = 3;

struct OwnedState {
  int row = 0;  // of the ParameterTable
  StateKind kind = StateKind::kMaster;
  Tensor values;               // fp32 vector on the device: a view, see ZeroShard::State
  std::vector<SliceRun> runs;  // local: index into values; global: index into the whole parameter
  // False: a copy that another rank owns too (ZeRO 0, replicated slices, a tied table's second owner): it is loaded,
  // not saved.
  bool saved = true;
};

}  // namespace trireme
