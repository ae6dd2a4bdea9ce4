// The state that one rank owns, as checkpoints see it: each element of each parameter is owned by exactly one rank
// of the world (data ranks share by shard, replicated slices belong to tensor rank 0, a tied table to the first stage).
#pragma once

#include <span>
#include <vector>

#include "device/device.h"
#include "model/parameter_table.h"
#include "ops/tensor.h"

namespace trireme {

// kRowMoment and kColumnMoment: Adafactor's second moments of a matrix, one number per row or column.
enum class StateKind : std::uint8_t { kMaster, kFirstMoment, kSecondMoment, kRowMoment, kColumnMoment };

struct OwnedState {
  int row = 0;  // of the ParameterTable
  StateKind kind = StateKind::kMaster;
  // Vector on the device, or in host memory that is the device's (Device::AllocateHost); moments and frozen
  // parameters fp32 or bf16, else fp32: a view, see ZeroShard::State.
  Tensor values;
  Shape shape = {};            // of the whole state; rank 0: the parameter's
  std::vector<SliceRun> runs;  // local: index into values; global: index into the whole state
  // False: a copy that another rank owns too (ZeRO 0, replicated slices, a tied table's second owner): it is loaded,
  // not saved.
  bool saved = true;
};

// Checkpoints hold fp32 alone. Copies values of either type to the host as fp32, which loses nothing.
void CopyValues(Device& device, const Tensor& from, float* to);
// Copies the other way; bf16 takes the nearest of each, in the memory of `from`, which is then used up.
void CopyValues(Device& device, std::span<float> from, const Tensor& to);

}  // namespace trireme
