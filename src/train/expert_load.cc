#include "train/expert_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "train/gather_numbers.h"

namespace trireme {

double ExpertLoad::MaxOverMean() const {
  double most = 0;
  for (const auto& [layer, loads] : rows) {
    const auto sum = static_cast<double>(std::accumulate(loads.begin(), loads.end(), std::int64_t{0}));
    const auto largest = static_cast<double>(*std::max_element(loads.begin(), loads.end()));
    most = std::max(most, sum > 0 ? largest * static_cast<double>(loads.size()) / sum : 0);
  }
  return most;
}

double ExpertLoad::Entropy() const {
  double least = 1;
  for (const auto& [layer, loads] : rows) {
    const auto sum = static_cast<double>(std::accumulate(loads.begin(), loads.end(), std::int64_t{0}));
    double entropy = 0;
    for (const std::int64_t load : loads) {
      const double share = static_cast<double>(load) / sum;
      entropy -= load > 0 ? share * std::log(share) : 0;
    }
    const double equal = std::log(static_cast<double>(loads.size()));
    least = std::min(least, equal > 0 ? entropy / equal : 1);
  }
  return least;
}

std::int64_t ExpertLoad::Idle() const {
  std::int64_t idle = 0;
  for (const auto& [layer, loads] : rows) {
    idle += std::count(loads.begin(), loads.end(), 0);
  }
  return idle;
}

ExpertLoad GatherExpertLoad(RankParts& parts) {
  const ModelConfig& model = parts.config().model;
  const auto experts = static_cast<std::size_t>(model.experts.count);
  // Tensor ranks route the same tokens: one of them counts.
  std::vector<std::int64_t> mine(static_cast<std::size_t>(model.layers) * experts, 0);
  for (const std::unique_ptr<Stage>& stage : parts.runner().stages()) {
    for (const auto& [layer, load] : stage->ExpertLoads()) {
      std::vector<float> values(experts);
      parts.device().CopyToHost(values.data(), load.data, load.bytes());
      for (std::size_t e = 0; parts.coordinate().tensor == 0 && e < experts; ++e) {
        mine[static_cast<std::size_t>(layer) * experts + e] = static_cast<std::int64_t>(values[e]);
      }
    }
  }
  ExpertLoad all;
  for (const std::vector<std::int64_t>& member : GatherNumbers(parts.world(), parts.device(), mine)) {
    for (std::int64_t layer = 0; layer < model.layers; ++layer) {
      if (!model.IsSparse(layer)) {
        continue;
      }
      std::vector<std::int64_t>& rows = all.rows[layer];
      rows.resize(experts, 0);
      for (std::size_t e = 0; e < experts; ++e) {
        rows[e] += member[static_cast<std::size_t>(layer) * experts + e];
      }
    }
  }
  return all;
}

std::string IdleExperts::Look(const ExpertLoad& load) {
  std::string names;
  int found = 0;
  for (const auto& [layer, loads] : load.rows) {
    for (std::size_t e = 0; e < loads.size(); ++e) {
      int& steps = steps_[{layer, e}];
      steps = loads[e] > 0 ? 0 : steps + 1;
      if (steps == kSteps) {
        constexpr int kShown = 4;
        names += found < kShown ? fmt::format("{}{} of layer {}", found == 0 ? "" : ", ", e, layer) : "";
        ++found;
      }
    }
  }
  return found == 0 ? ""
                    : fmt::format(
                          "{} expert{} had no token for {} steps ({}): raise model.balance_loss, or lower "
                          "optimizer.learning_rate",
                          found, found == 1 ? " has" : "s have", kSteps, names);
}

}  // namespace trireme
