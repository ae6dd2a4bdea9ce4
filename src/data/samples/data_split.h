// Which part of a token stream is for training, validation and testing: contiguous ranges in the stored order, so that
// the parts never overlap whatever the seed.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "data/dataset/token_store.h"

namespace trireme {

struct TokenRange {
  std::int64_t first = 0;
  std::int64_t last = 0;  // one past the end
  std::int64_t size() const { return last - first; }
  bool operator==(const TokenRange&) const = default;
};

// Index of "train", "validation" or "test"; anything else is an Error.
int SplitIndex(const std::string& split);

// "969,30,1", "0.9,0.1" or "1" as three weights, missing ones 0; not all may be 0.
std::array<double, 3> ParseSplitWeights(const std::string& text);

// The range of `split`. Cuts are proportional in tokens; a cut then moves back to the start of the document it falls
// in, if that moves at most a tenth of the smaller of its two neighbours: documents stay whole unless they are too
// few to be dealt out. Empty weights give the whole stream to every split.
TokenRange SplitTokens(const TokenStore& store, const std::string& split, const std::string& weights);

}  // namespace trireme
