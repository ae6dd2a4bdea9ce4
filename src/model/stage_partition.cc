#include "model/stage_partition.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/error.h"
#include "base/shape.h"
#include "topology/nearest.h"

namespace trireme {
namespace {

// FLOPs of one token's forward through a module; the embedding only looks up.
struct ModuleWeights {
  double block = 0;
  double head = 0;
};

ModuleWeights WeightsOf(const ModelConfig& config) {
  const auto hidden = static_cast<double>(config.hidden);
  const auto head_rows = static_cast<double>((config.heads + 2 * config.kv_heads) * config.head_size());
  const auto queries = static_cast<double>(config.heads * config.head_size());
  const double matrices = IsGated(config.feed_forward) ? 3 : 2;
  const ExpertsConfig& experts = config.experts;
  // Blocks with experts and dense ones weigh the same here: their mean.
  const double share = static_cast<double>(config.SparseLayers()) / static_cast<double>(config.layers);
  const double sparse = matrices * static_cast<double>(experts.chosen * experts.ffn + experts.shared_ffn) +
                        static_cast<double>(experts.count);
  const double wide = (1 - share) * matrices * static_cast<double>(config.ffn) + share * sparse;
  const double matmul = 2 * hidden * (head_rows + queries + wide);
  const double attention = 2 * queries * static_cast<double>(config.sequence);  // scores and values, causally halved
  return {.block = matmul + attention, .head = 2 * hidden * static_cast<double>(config.vocabulary)};
}

std::vector<std::int64_t> UniformBlocks(const ModelConfig& config, const ParallelLayout& layout) {
  const int stages = layout.virtual_stages();
  const std::string factors = layout.chunks == 1 ? fmt::format("layout.pipeline = {}", layout.pipeline)
                                                 : fmt::format("layout.pipeline = {} x layout.chunks = {} = {}",
                                                               layout.pipeline, layout.chunks, stages);
  Require(config.layers % stages == 0,
          "model.layers = {} is not divisible by {}, which a uniform partition needs; nearest that work: layers {}, "
          "or {} stages; or set layout.partition to balanced, cost or a list",
          config.layers, factors, NearestMultiples(config.layers, stages), NearestDivisors(config.layers, stages));
  return std::vector<std::int64_t>(static_cast<std::size_t>(stages), config.layers / stages);
}

void RequireEnoughModules(const ModelConfig& config, int stages, const std::string& partition) {
  Require(config.modules() >= stages,
          "{} stages (layout.pipeline x layout.chunks) are more than the {} modules of model.layers = {} (embedding, "
          "blocks, head) that layout.partition = '{}' can spread; the most that works is {}",
          stages, config.modules(), config.layers, partition, config.modules());
}

// Spreads all modules evenly; the stages nearest to the middle take the remainder, because the outer ones already
// hold the embedding and the head.
std::vector<std::int64_t> BalancedBlocks(const ModelConfig& config, int stages) {
  RequireEnoughModules(config, stages, "balanced");
  std::vector<std::int64_t> modules(static_cast<std::size_t>(stages), config.modules() / stages);
  std::vector<int> from_middle(static_cast<std::size_t>(stages));
  std::iota(from_middle.begin(), from_middle.end(), 0);
  std::stable_sort(from_middle.begin(), from_middle.end(),
                   [&](int a, int b) { return std::abs(2 * a - stages + 1) < std::abs(2 * b - stages + 1); });
  for (std::int64_t extra = 0; extra < config.modules() % stages; ++extra) {
    ++modules[static_cast<std::size_t>(from_middle[static_cast<std::size_t>(extra)])];
  }
  --modules.front();
  --modules.back();
  return modules;
}

// All blocks weigh the same, so that one number decides: how many join the head. The others spread evenly over the
// stages before, later ones taking the remainder because they keep fewer micro batches in flight.
std::vector<std::int64_t> CostBlocks(const ModelConfig& config, int stages) {
  RequireEnoughModules(config, stages, "cost");
  if (stages == 1) {
    return {config.layers};
  }
  const ModuleWeights weights = WeightsOf(config);
  const std::int64_t before = stages - 1;
  std::int64_t best_last = 0;
  double best_slowest = 0;
  for (std::int64_t last = 0; config.layers - last >= before - 1; ++last) {
    const std::int64_t most_before = CeilDiv(config.layers - last, before);
    const double slowest = std::max(static_cast<double>(most_before) * weights.block,
                                    static_cast<double>(last) * weights.block + weights.head);
    if (last == 0 || slowest < best_slowest) {
      best_last = last;
      best_slowest = slowest;
    }
  }
  const std::int64_t spread = config.layers - best_last;
  std::vector<std::int64_t> blocks(static_cast<std::size_t>(stages), spread / before);
  for (std::int64_t extra = 0; extra < spread % before; ++extra) {
    ++blocks[static_cast<std::size_t>(before - 1 - extra)];
  }
  blocks.back() = best_last;
  return blocks;
}

std::vector<std::int64_t> ListedBlocks(const ModelConfig& config, const ParallelLayout& layout) {
  const std::string& text = layout.partition;
  std::vector<std::int64_t> blocks;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (true) {
    std::int64_t count = 0;
    const auto [stop, error] = std::from_chars(at, end, count);
    Require(error == std::errc() && count >= 0 && count <= config.layers && (stop == end || *stop == ','),
            "layout.partition = '{}' is neither uniform, balanced, cost nor a list of layers such as '7,7,6'", text);
    blocks.push_back(count);
    if (stop == end) {
      break;
    }
    at = stop + 1;
  }
  const auto stages = static_cast<std::size_t>(layout.virtual_stages());
  Require(blocks.size() == stages,
          "layout.partition = '{}' lists {} stages, but layout.pipeline = {} x layout.chunks = {} = {}", text,
          blocks.size(), layout.pipeline, layout.chunks, stages);
  const std::int64_t sum = std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0});
  Require(sum == config.layers, "layout.partition = '{}' sums to {} layers, but model.layers = {}", text, sum,
          config.layers);
  for (std::size_t stage = 1; stage + 1 < stages; ++stage) {
    Require(blocks[stage] > 0,
            "layout.partition = '{}' leaves stage {} without any layer; only the first (embedding) and the "
            "last (head) may be 0",
            text, stage);
  }
  return blocks;
}

constexpr std::int64_t kMaxVirtualStages = 65'536;

std::vector<std::int64_t> BlocksOf(const ModelConfig& config, const ParallelLayout& layout) {
  Require(static_cast<std::int64_t>(layout.pipeline) * layout.chunks <= kMaxVirtualStages,
          "layout.pipeline = {} x layout.chunks = {} is more than {} virtual stages", layout.pipeline, layout.chunks,
          kMaxVirtualStages);
  if (layout.partition == "uniform") {
    return UniformBlocks(config, layout);
  }
  if (layout.partition == "balanced") {
    return layout.virtual_stages() == 1 ? std::vector<std::int64_t>{config.layers}
                                        : BalancedBlocks(config, layout.virtual_stages());
  }
  if (layout.partition == "cost") {
    return CostBlocks(config, layout.virtual_stages());
  }
  return ListedBlocks(config, layout);
}

}  // namespace

StagePartition::StagePartition(const ModelConfig& config, const ParallelLayout& layout) : layers_(config.layers) {
  const std::vector<std::int64_t> blocks = BlocksOf(config, layout);
  const ModuleWeights weights = WeightsOf(config);
  std::int64_t next = 0;
  double slowest = 0;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    const bool is_last = stage + 1 == blocks.size();
    const std::int64_t end = next + blocks[stage] + (stage == 0 ? 1 : 0) + (is_last ? 1 : 0);
    ranges_.push_back({.first = next, .last = end});
    next = end;
    slowest = std::max(slowest, static_cast<double>(blocks[stage]) * weights.block + (is_last ? weights.head : 0));
  }
  const double whole = static_cast<double>(layers_) * weights.block + weights.head;
  imbalance_ = slowest * static_cast<double>(blocks.size()) / whole;
}

std::string StagePartition::ToString() const {
  std::string text;
  for (const ModuleRange& range : ranges_) {
    const std::int64_t first = std::max<std::int64_t>(range.first, 1);
    const std::int64_t last = std::min(range.last, layers_ + 1);
    text += fmt::format("{}{}", text.empty() ? "" : ",", std::max<std::int64_t>(last - first, 0));
  }
  return text;
}

}  // namespace trireme
