// Deals the samples of a global batch to data ranks and micro batches by their attention work. Products, norms and the
// head cost the same for every sample; attention that stays within documents does not.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/model_config.h"

namespace trireme {

// Pairs of query and key of a sample's documents, added up over the layers of a model.
double AttentionWork(const ModelConfig& model, std::span<const std::int64_t> documents);

struct DealShape {
  int data_size = 1;
  int micro_batches = 1;
  std::int64_t micro_batch = 1;
  bool keeps_groups = false;  // micro batches stay groups of consecutive samples; these are dealt
};

// Sample order[s] of the global batch goes to slot s = (micro batch * data_size + data rank) * micro_batch + sequence.
// Heaviest first, each to the data rank with the least work that has room; then likewise to the micro batches of a
// rank, which begin with the heaviest. Equal ones keep their order: the result depends on the arguments alone. `work`
// has an entry for each sample of the global batch.
std::vector<std::int64_t> DealByWork(const std::vector<double>& work, const DealShape& shape);

// By how much the busiest has more attention work than the mean: 0.1 is 10 %.
struct WorkBalance {
  double data_ranks = 0;     // of a step
  double micro_batches = 0;  // of all ranks
};
WorkBalance BalanceOf(const std::vector<double>& work, const std::vector<std::int64_t>& order, const DealShape& shape);

}  // namespace trireme
