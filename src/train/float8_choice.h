// train.fp8_products = "auto" on a GPU: which of a block's products are made in fp8. Copies to fp8 read and write whole
// operands, so that products of few tokens or small widths are faster in bf16.
#pragma once

#include "comm/rank_runner.h"
#include "lowering/local_sizes.h"
#include "run/run_config.h"

namespace trireme {

// A linear layer on one rank: `rows` tokens, weight [outputs, inputs].
struct LinearShape {
  std::int64_t rows = 0;
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  bool bias = false;
};
LinearShape ShapeOf(BlockLinear linear, const LocalSizes& sizes, bool bias);

// The time of the three products in bf16 over that in fp8 with its copies, by the rates of an H200: a fixed rule.
double EstimatedGain(const LinearShape& shape);
// The same, measured on `device`.
double MeasuredGain(Device& device, const LinearShape& shape);

// The set for a run, as text; "all" on a CPU, which has fp8 for tests. Cases that are not clear by the rule are
// measured by rank 0 for all ranks, unless train.deterministic. Collective over the world.
std::string ChooseFloat8Products(const RunConfig& config, RankContext& context);

}  // namespace trireme
