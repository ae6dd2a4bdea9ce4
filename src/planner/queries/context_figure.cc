#include "planner/queries/context_figure.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cost/module_cost.h"

namespace trireme {
namespace {

constexpr int kMostColumns = 64;
constexpr int kMostRows = 16;

// Chunks of this rank as its number's last digit, those of others as dots.
std::string Row(const ContextShare& share) {
  std::string row(static_cast<std::size_t>(std::min(share.chunks(), kMostColumns)), '.');
  for (const std::int64_t first : share.Chunks()) {
    const auto column = static_cast<std::size_t>(first / share.chunk());
    if (column < row.size()) {
      row[column] = static_cast<char>('0' + share.rank % 10);
    }
  }
  return row + (share.chunks() > kMostColumns ? " ..." : "");
}

std::string Moves(const Traffic& traffic) {
  std::string text;
  for (std::size_t kind = 0; kind < traffic.calls.size(); ++kind) {
    const bool arrives = static_cast<CollectiveKind>(kind) == CollectiveKind::kReceive;  // as much as is sent
    if (traffic.calls[kind] > 0 && !arrives) {
      text += fmt::format("{}{} x {} of {:.3g} MB", text.empty() ? "" : ", ", traffic.calls[kind],
                          Name(static_cast<CollectiveKind>(kind)),
                          static_cast<double>(traffic.bytes[kind]) / static_cast<double>(traffic.calls[kind]) / 1e6);
    }
  }
  return text.empty() ? "nothing" : text;
}

// Steps of ring attention: whose keys each rank works on; ">": they go on to the next rank meanwhile.
std::string RingSteps(int ranks, const char* member) {
  const int shown = std::min(ranks, kMostRows);
  std::string text = fmt::format("    {:<{}} {:<5}", "step", std::string_view(member).size(), "");
  for (int step = 0; step < shown; ++step) {
    text += fmt::format("  {:>3}", step + 1);
  }
  text += shown < ranks ? "   ...\n" : "\n";
  for (int rank = 0; rank < shown; ++rank) {
    text += fmt::format("    {} {:<5}", member, rank);
    for (int step = 0; step < shown; ++step) {
      text += fmt::format("{} {:>3}", step > 0 ? ">" : " ", (rank + ranks - step) % ranks);
    }
    text += shown < ranks ? "> ...\n" : "\n";
  }
  return text;
}

std::string WhatMovesWhen(const LocalSizes& sizes, ContextKind kind) {
  std::string text = "  what moves when, in forward: ";
  if (kind == ContextKind::kAllGather) {
    return text + "all-gather of keys and values, then attention over all of them\n";
  }
  if (sizes.ulysses) {
    text += "all-to-all from tokens to heads, attention, all-to-all back\n";
  }
  const int ranks = sizes.OfAttention().context;
  if (ranks == 1) {
    return text;
  }
  const char* const member = sizes.ulysses ? "group" : "rank";
  text += sizes.ulysses ? "  attention, whose keys" : "whose keys";
  return text +
         fmt::format(" a {} works on; >: and sends on to the next meanwhile\n{}", member, RingSteps(ranks, member));
}

}  // namespace

std::string ContextFigure(const PlanPoint& point) {
  const ParallelLayout& layout = point.config.layout;
  if (layout.context == 1) {
    return "";
  }
  LocalSizes sizes(point.config.model, layout, point.dtype(), false);
  std::vector<double> work;
  for (int rank = 0; rank < layout.context; ++rank) {
    sizes.context_rank = rank;
    work.push_back(static_cast<double>(sizes.HeadPairs()));
  }
  double sum = 0;
  for (const double one : work) {
    sum += one;
  }
  const double most = *std::max_element(work.begin(), work.end());
  std::string text = fmt::format(
      "\ncontext axis: {} ranks by {}; a sequence of {} tokens in {} chunks of {}; the most attention of a rank is "
      "{:.1f} % above the mean\n",
      layout.context, Name(layout.context_kind), sizes.keys, sizes.share().chunks(), sizes.share().chunk(),
      100 * (most * layout.context / sum - 1));
  for (int rank = 0; rank < std::min(layout.context, kMostRows); ++rank) {
    sizes.context_rank = rank;
    text += fmt::format("  rank {:>3}  {}  {:.2f} % of attention\n", rank, Row(sizes.share()),
                        100 * work[static_cast<std::size_t>(rank)] / sum);
  }
  if (sizes.ulysses) {
    text += fmt::format("  Ulysses: groups of {} ranks have {} of a tensor rank's {} query heads each\n",
                        sizes.head_ranks, sizes.OfAttention().heads, sizes.heads);
  }
  const ModuleCost cost = CostOfBlock(sizes, point.config.model);
  Traffic backward = cost.backward_input.context;
  backward += cost.backward_weight.context;
  text += fmt::format("  a block moves, per rank and micro batch: forward {}; backward {}\n",
                      Moves(cost.forward.context), Moves(backward));
  return text + WhatMovesWhen(sizes, layout.context_kind);
}

}  // namespace trireme
