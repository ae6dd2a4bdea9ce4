#include "data/samples/data_split.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::array<const char*, 3> kSplitNames = {"train", "validation", "test"};

}  // namespace

int SplitIndex(const std::string& split) {
  const auto found = std::find(kSplitNames.begin(), kSplitNames.end(), split);
  Require(found != kSplitNames.end(), "unknown split '{}': it is train, validation or test{}", split,
          NearestMatch(split, kSplitNames));
  return static_cast<int>(found - kSplitNames.begin());
}

std::array<double, 3> ParseSplitWeights(const std::string& text) {
  std::array<double, 3> weights{};
  std::size_t count = 0;
  const char* cursor = text.c_str();
  double total = 0;
  while (true) {
    char* end = nullptr;
    const double weight = std::strtod(cursor, &end);
    Require(end != cursor && std::isfinite(weight) && weight >= 0 && count < 3,
            "split weights '{}' are not up to three numbers such as 969,30,1", text);
    weights[count++] = weight;
    total += weight;
    if (*end == '\0') {
      break;
    }
    Require(*end == ',', "split weights '{}' are not up to three numbers such as 969,30,1", text);
    cursor = end + 1;
  }
  Require(total > 0, "split weights '{}' are all zero", text);
  return weights;
}

TokenRange SplitTokens(const TokenStore& store, const std::string& split, const std::string& weights_text) {
  const int index = SplitIndex(split);
  const std::int64_t tokens = store.tokens();
  if (weights_text.empty()) {
    return {0, tokens};
  }
  const auto weights = ParseSplitWeights(weights_text);
  const double total = weights[0] + weights[1] + weights[2];
  std::array<std::int64_t, 4> cuts = {0, 0, 0, tokens};
  for (std::size_t cut = 1; cut <= 2; ++cut) {
    const double share = (cut == 1 ? weights[0] : weights[0] + weights[1]) / total;
    cuts[cut] = std::clamp<std::int64_t>(std::llround(share * static_cast<double>(tokens)), 0, tokens);
  }
  std::array<std::int64_t, 4> moved = cuts;
  for (std::size_t cut = 1; cut <= 2; ++cut) {
    if (cuts[cut] <= 0 || cuts[cut] >= tokens) {
      continue;
    }
    const std::int64_t start = store.DocumentStart(cuts[cut]);
    const std::int64_t smaller = std::min(cuts[cut] - cuts[cut - 1], cuts[cut + 1] - cuts[cut]);
    if (cuts[cut] - start <= smaller / 10) {
      moved[cut] = start;
    }
  }
  const auto at = static_cast<std::size_t>(index);
  return {moved[at], moved[at + 1]};
}

}  // namespace trireme
