#include "model/adapter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::array<std::string_view, 4> kProducts = {"attention.qkv", "attention.out", "mlp.in", "mlp.out"};

// The names between the commas, without spaces.
std::vector<std::string_view> NamesIn(std::string_view text) {
  std::vector<std::string_view> names;
  while (true) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view name = text.substr(0, comma);
    while (name.starts_with(' ')) {
      name.remove_prefix(1);
    }
    while (name.ends_with(' ')) {
      name.remove_suffix(1);
    }
    names.push_back(name);
    if (comma == text.size()) {
      return names;
    }
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

bool AdapterConfig::On(std::string_view product) const {
  if (!any()) {
    return false;
  }
  const std::vector<std::string_view> names = NamesIn(targets);
  return targets == "all" || std::find(names.begin(), names.end(), product) != names.end();
}

std::string AdapterTargets() {
  std::string all;
  for (const std::string_view product : kProducts) {
    all += (all.empty() ? "" : ", ") + std::string(product);
  }
  return all;
}

void RequireAdapter(const AdapterConfig& adapter, std::int64_t hidden) {
  Require(adapter.rank >= 0 && adapter.rank <= hidden,
          "lora.rank = {} must be between 0 (no adapters) and model.hidden = {}", adapter.rank, hidden);
  Require(std::isfinite(adapter.alpha) && adapter.alpha >= 0,
          "lora.alpha = {} must be a finite number above 0, or 0 for lora.rank", adapter.alpha);
  if (adapter.targets == "all") {
    return;
  }
  for (const std::string_view name : NamesIn(adapter.targets)) {
    Require(std::find(kProducts.begin(), kProducts.end(), name) != kProducts.end(),
            "lora.targets: '{}' is no product of a block{}; known: all, or some of {}", name,
            NearestMatch(std::string(name), kProducts), AdapterTargets());
  }
}

}  // namespace trireme
