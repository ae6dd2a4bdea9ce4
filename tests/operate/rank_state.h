// The state of one rank of a layout, with values of a step, for tests of RunCheckpoints without a trainer.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/saved_world.h"
#include "train/owned_state.h"

namespace trireme {

// One rank's training state: memory of its own, with values of a step.
class RankState {
 public:
  RankState(const ParameterTable& table, const ParallelLayout& layout, int rank, std::int64_t salt)
      : slices_(SlicesOfRank(table, layout, rank, salt)) {
    for (OwnedSlice& owned : slices_) {
      const StateKind kind = owned.slice.kind == kMasterKind        ? StateKind::kMaster
                             : owned.slice.kind == kFirstMomentKind ? StateKind::kFirstMoment
                                                                    : StateKind::kSecondMoment;
      states_.push_back(
          {.row = table.Find(owned.slice.tensor),
           .kind = kind,
           .values = {owned.values.data(), DType::kFloat32, {static_cast<std::int64_t>(owned.values.size())}},
           .runs = owned.runs});
    }
  }

  std::span<const OwnedState> states() const { return states_; }
  void Clear() {
    for (OwnedSlice& owned : slices_) {
      std::fill(owned.values.begin(), owned.values.end(), 123.0F);
    }
  }
  // Whether all values are those of a step; moments may be expected to be zero.
  bool Holds(std::int64_t salt, bool zero_moments = false) const {
    for (const OwnedSlice& owned : slices_) {
      const bool zero = zero_moments && owned.slice.kind != kMasterKind;
      for (const SliceRun& run : owned.runs) {
        for (std::int64_t i = 0; i < run.count; ++i) {
          const float expected = zero ? 0.0F : ValueAt(owned.slice.tensor, owned.slice.kind, run.global + i, salt);
          const float found = owned.values[static_cast<std::size_t>(run.local + i)];
          if (std::bit_cast<std::uint32_t>(expected) != std::bit_cast<std::uint32_t>(found)) {
            return false;
          }
        }
      }
    }
    return true;
  }

 private:
  std::vector<OwnedSlice> slices_;
  std::vector<OwnedState> states_;
};

}  // namespace trireme
