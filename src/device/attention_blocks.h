// What attention over chunks of queries and keys (AttentionArgs::kv) comes down to for kernels that know causal squares
// and whole rectangles alone, as cuDNN's: no mask depends on where chunks stand.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/attention.h"

namespace trireme {

// Rows of queries and keys of one sequence; those of sequence b follow `sequence` rows later each time. With `causal`
// there are as many of both, and query i sees keys 0 to i; otherwise every query sees every key.
struct AttentionBlock {
  std::int64_t query = 0;
  std::int64_t queries = 0;
  std::int64_t key = 0;
  std::int64_t keys = 0;
  bool causal = false;

  bool operator==(const AttentionBlock&) const = default;
};

// Blocks that together hold each visible pair once, and each key in one block at most. They are as large as rows that
// lie side by side allow: in the zig-zag order of ContextShare a rank's own keys are one causal square, and those of
// another rank one rectangle. Empty where chunks do not come down to blocks: they overlap in part, or a key would be in
// two. Requires args.kv, and neither a window nor documents.
std::vector<AttentionBlock> AttentionBlocks(const AttentionArgs& args);

}  // namespace trireme
