#include "train/work_balance.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/causal_pairs.h"
#include "base/error.h"

namespace trireme {
namespace {

// One of the things that are dealt: a sample, or consecutive samples of one micro batch.
struct Unit {
  std::int64_t first = 0;
  double work = 0;
};

struct Bin {
  std::vector<Unit> units;
  double work = 0;
};

// Equal numbers of units for all bins.
std::vector<Bin> Deal(std::vector<Unit> units, std::size_t bins) {
  const std::size_t room = units.size() / bins;
  std::stable_sort(units.begin(), units.end(), [](const Unit& a, const Unit& b) { return a.work > b.work; });
  std::vector<Bin> dealt(bins);
  for (const Unit& unit : units) {
    Bin* least = nullptr;
    for (Bin& bin : dealt) {
      if (bin.units.size() < room && (least == nullptr || bin.work < least->work)) {
        least = &bin;
      }
    }
    least->units.push_back(unit);
    least->work += unit.work;
  }
  return dealt;
}

double MostOverMean(const std::vector<double>& work) {
  const double sum = std::accumulate(work.begin(), work.end(), 0.0);
  const double most = *std::max_element(work.begin(), work.end());
  return sum > 0 ? most * static_cast<double>(work.size()) / sum - 1 : 0;
}

}  // namespace

double AttentionWork(const ModelConfig& model, std::span<const std::int64_t> documents) {
  const std::map<AttentionKind, std::int64_t> kinds = AttentionKinds(model);
  double pairs = 0;
  for (const std::int64_t document : documents) {
    for (const auto& [kind, layers] : kinds) {
      pairs += static_cast<double>(layers) * static_cast<double>(CausalPairs(document, kind.window));
    }
  }
  return pairs;
}

std::vector<std::int64_t> DealByWork(const std::vector<double>& work, const DealShape& shape) {
  const auto samples = static_cast<std::int64_t>(work.size());
  Require(samples == shape.data_size * shape.micro_batches * shape.micro_batch,
          "{} samples cannot be dealt to {} data ranks in {} micro batches of {}", samples, shape.data_size,
          shape.micro_batches, shape.micro_batch);
  const std::int64_t group = shape.keeps_groups ? shape.micro_batch : 1;
  std::vector<Unit> units;
  for (std::int64_t first = 0; first < samples; first += group) {
    units.push_back({first, std::accumulate(work.begin() + first, work.begin() + first + group, 0.0)});
  }
  std::vector<std::int64_t> order(work.size());
  const std::vector<Bin> ranks = Deal(std::move(units), static_cast<std::size_t>(shape.data_size));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::vector<Bin> batches = Deal(ranks[rank].units, static_cast<std::size_t>(shape.micro_batches));
    std::stable_sort(batches.begin(), batches.end(), [](const Bin& a, const Bin& b) { return a.work > b.work; });
    for (std::size_t j = 0; j < batches.size(); ++j) {
      auto slot = order.begin() + static_cast<std::ptrdiff_t>(j * ranks.size() + rank) * shape.micro_batch;
      for (const Unit& unit : batches[j].units) {
        std::iota(slot, slot + group, unit.first);
        slot += group;
      }
    }
  }
  return order;
}

WorkBalance BalanceOf(const std::vector<double>& work, const std::vector<std::int64_t>& order, const DealShape& shape) {
  std::vector<double> ranks(static_cast<std::size_t>(shape.data_size), 0.0);
  std::vector<double> batches(ranks.size() * static_cast<std::size_t>(shape.micro_batches), 0.0);
  for (std::size_t slot = 0; slot < order.size(); ++slot) {
    const std::size_t batch = slot / static_cast<std::size_t>(shape.micro_batch);
    batches[batch] += work[static_cast<std::size_t>(order[slot])];
    ranks[batch % ranks.size()] += work[static_cast<std::size_t>(order[slot])];
  }
  return {.data_ranks = MostOverMean(ranks), .micro_batches = MostOverMean(batches)};
}

}  // namespace trireme
