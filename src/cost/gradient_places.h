// Where a stage's gradients lie. A step with one micro batch makes a module's gradients when the activations of all
// later modules have been used up: they then lie in the same memory. Activations grow from the bottom in the order of
// the modules, gradients from the top in the order of backward, and never meet:
//
//     | embedding | block 1 | block 2 | block 3 | head |                     activations, forward ->
//           | embedding |   block 1   |   block 2   |   block 3   | head | tied |      <- gradients, backward
//
// With several micro batches, or where gradients are moved in pieces (ZeRO 2 and 3), both have memory of their own.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/step_cost.h"

namespace trireme {

struct GradientPlaces {
  bool over_activations = false;
  // The rest: of gradients over activations only.
  std::vector<std::int64_t> offsets;  // by bucket, in bytes from the start of the activations
  std::int64_t beyond = 0;            // bytes that gradients take after the activations' end

  // Reads of the plan's buckets only their sizes and order, so that those of a planner's account do.
  explicit GradientPlaces(const StageDescription& stage);
};

}  // namespace trireme
