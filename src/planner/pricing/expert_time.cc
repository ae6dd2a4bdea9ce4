#include "planner/pricing/expert_time.h"

#include <algorithm>
#include <cmath>

#include "base/shape.h"
#include "planner/pricing/block_time.h"

namespace trireme {
namespace {

// The mean of the largest of `count` normal numbers.
double LargestNormal(int count) {
  struct Known {
    int count;
    double mean;
  };
  static constexpr Known kMeans[] = {{1, 0},      {2, 0.564},  {4, 1.029},   {8, 1.424},  {16, 1.766},
                                     {32, 2.070}, {64, 2.344}, {128, 2.594}, {256, 2.825}};
  for (std::size_t i = 1; i < std::size(kMeans); ++i) {
    if (count <= kMeans[i].count) {
      const double part = std::log2(static_cast<double>(count) / kMeans[i - 1].count) /
                          std::log2(static_cast<double>(kMeans[i].count) / kMeans[i - 1].count);
      return kMeans[i - 1].mean + part * (kMeans[i].mean - kMeans[i - 1].mean);
    }
  }
  return std::sqrt(2 * std::log(static_cast<double>(count)));
}

// On how many of `parts` equal parts of the experts the `chosen` ones of a token lie.
double PartsReached(double parts, double experts, double chosen) {
  double none = 1;  // the chance that a part has none of them
  const double others = experts - experts / parts;
  for (double i = 0; i < chosen; ++i) {
    none *= std::max(others - i, 0.0) / (experts - i);
  }
  return parts * (1 - none);
}

struct PassSeconds {
  double in = 0;  // the product with the first matrix, or the gradients through it
  double out = 0;
};

struct ExpertProducts {
  PassSeconds forward, input, weight;
};

ExpertProducts ProductsOf(const PlanPoint& point, const LocalSizes& s, const ExpertShare& share) {
  const MatmulPrice price = ProductPrice(point, point.products());
  const auto together = static_cast<std::int64_t>(point.stack.time.expert_streams);
  const auto seconds = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    return price.GroupedSeconds({m, n, k}, share.experts, together);
  };
  const std::int64_t rows = share.rows_of_each();
  const std::int64_t wide = (s.gated ? 2 : 1) * share.width;
  return {.forward = {seconds(rows, wide, s.hidden), seconds(rows, s.hidden, share.width)},
          .input = {seconds(rows, s.hidden, wide), seconds(rows, share.width, s.hidden)},
          .weight = {seconds(wide, s.hidden, rows), seconds(s.hidden, share.width, rows)}};
}

// One exchange: rows leave for their experts, or come back.
double OneExchange(const PlanPoint& point, const LocalSizes& s, const ExpertShare& share) {
  const ParallelLayout& layout = point.config.layout;
  if (layout.expert == 1) {
    return 0;
  }
  const GroupPlacement group = PlaceExperts(point.cluster, layout);
  const double ranks = layout.expert;
  const double nodes = group.nodes();
  const double experts = static_cast<double>(s.experts);
  const double chosen = static_cast<double>(s.chosen);
  // Where tokens go once to each rank, those for another node cross once and are passed on there.
  const bool once = point.stack.time.sends_tokens_once;
  const double copies = once ? PartsReached(ranks, experts, chosen) / chosen : 1;
  const double crossing = once ? PartsReached(nodes, experts, chosen) / chosen : 1;
  const double bytes = share.leaving * share.imbalance * static_cast<double>(s.hidden * s.element());
  // Kernels that write to other nodes themselves fill the cards (DeepEP's README: 43 to 58 GB/s of 50 for 16 to 64
  // ranks).
  constexpr double kDirect = 0.9;
  const double data = point.stack.efficiencies.data_link;
  const LinkShares shares{.device = point.stack.efficiencies.tensor_link,
                          .node = once ? std::max(kDirect, data) : data,
                          .latency = point.stack.efficiencies.node_latency};
  const double within = bytes * copies * (group.per_node - 1) / ranks * (once ? nodes : 1);
  return ExchangeSeconds(within, bytes * crossing * (1 - 1 / nodes), group, point.cluster, shares);
}

// Ranks that divide the width of experts see each other's rows, and add up what they made of them.
double WidthSeconds(const PlanPoint& point, const LocalSizes& s, const ExpertShare& share) {
  const int width = point.config.layout.expert_width_ranks();
  if (width == 1 || point.config.layout.tensor == 1) {
    return 0;
  }
  ParallelLayout group = point.config.layout;
  group.tensor = width;
  return CollectiveSeconds(CollectiveKind::kAllGather, share.rows * static_cast<double>(s.hidden * s.element()), 1,
                           PlaceTensor(point.cluster, group), point.cluster, InnerShares(point));
}

}  // namespace

std::int64_t ExpertShare::rows_of_each() const {
  return std::max<std::int64_t>(1, std::llround(rows * imbalance / static_cast<double>(experts)));
}

double BusiestShare(double variation, int ranks, std::int64_t experts, double rows) {
  if (ranks <= 1 || rows <= 0) {
    return 1;
  }
  const double spread = variation * variation * ranks / static_cast<double>(experts) + 1 / rows;
  return std::min<double>(1 + LargestNormal(ranks) * std::sqrt(spread), ranks);
}

ExpertShare ShareOfExperts(const PlanPoint& point, const LocalSizes& s) {
  const ParallelLayout& layout = point.config.layout;
  const int width = layout.expert_width_ranks();
  ExpertShare share;
  share.experts = s.experts / layout.expert;
  share.width = point.config.model.experts.ffn / width;
  // Tensor ranks route their own tokens.
  share.leaving = static_cast<double>(s.tokens) / layout.tensor * static_cast<double>(s.chosen);
  share.rows = share.leaving * width;
  share.imbalance = BusiestShare(point.stack.time.expert_variation, layout.expert, s.experts, share.rows);
  return share;
}

double AddExperts(const PlanPoint& point, const LocalSizes& s, ModuleTime& time) {
  const ExpertShare share = ShareOfExperts(point, s);
  const TimeTraits& traits = point.stack.time;
  const ExpertProducts products = ProductsOf(point, s, share);
  time.forward.matmul += products.forward.in + products.forward.out;
  time.backward_input.matmul += products.input.in + products.input.out;
  time.backward_weight.matmul += products.weight.in + products.weight.out;
  const double rows = share.rows * share.imbalance;
  const double active = rows * static_cast<double>((s.gated ? 2 : 1) * share.width) / 7 * traits.inside_bytes;
  const double moved = rows * static_cast<double>(s.hidden) * traits.expert_row_bytes;
  time.forward.memory += MemorySeconds(point, static_cast<double>(s.element()) / 2 * (active + moved));
  const double exchange = (1 - traits.expert_overlap) * 2 * OneExchange(point, s, share);
  time.forward.experts += exchange;
  time.backward_input.experts += exchange;
  const double width = 2 * WidthSeconds(point, s, share);
  time.forward.tensor += width;
  time.backward_input.tensor += width;
  return products.forward.out;
}

double ExpertIssueSeconds(const PlanPoint& point, const LocalSizes& s) {
  if (s.experts == 0) {
    return 0;
  }
  const std::int64_t products = 2 * (s.experts / point.config.layout.expert);
  return point.stack.time.expert_layer_seconds +
         static_cast<double>(products) * point.stack.time.expert_product_seconds;
}

}  // namespace trireme
