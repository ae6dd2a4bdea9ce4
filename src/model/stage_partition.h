// Which modules sit on which virtual stage (pipeline stage x chunk): consecutive ranges of modules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/model_config.h"

namespace trireme {

struct ModuleRange {
  std::int64_t first = 0;
  std::int64_t last = 0;  // one past the end
  std::int64_t size() const { return last - first; }
  bool Contains(std::int64_t module) const { return module >= first && module < last; }
  bool operator==(const ModuleRange&) const = default;
};

class StagePartition {
 public:
  // layout.partition: "uniform" needs layers % virtual stages == 0 and refuses otherwise, naming the nearest that
  // works; "balanced" counts embedding and head as layers and spreads evenly, extra ones first to the middle; "cost"
  // minimises the slowest stage by FLOPs (head and blocks weighed); a list gives the layers of each virtual stage, the
  // embedding joins the first and the head the last. No virtual stage may be without any module.
  StagePartition(const ModelConfig& config, const ParallelLayout& layout);

  int virtual_stages() const { return static_cast<int>(ranges_.size()); }
  const ModuleRange& Range(int virtual_stage) const { return ranges_[static_cast<std::size_t>(virtual_stage)]; }
  // Slowest over mean, by the FLOP weights.
  double Imbalance() const { return imbalance_; }
  // "7,7,6": blocks of each virtual stage.
  std::string ToString() const;

 private:
  std::vector<ModuleRange> ranges_;
  std::int64_t layers_ = 0;
  double imbalance_ = 1;
};

}  // namespace trireme
