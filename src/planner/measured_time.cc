#include "planner/measured_time.h"

#include <algorithm>

#include "base/shape.h"
#include "planner/collective_time.h"
#include "planner/matmul_time.h"

namespace trireme {

std::optional<MeasuredPrice> MeasuredPrice::Of(const PlanPoint& point) {
  const std::optional<MeasuredRates>& measured = point.cluster.measured;
  if (!point.stack.ours || !measured) {
    return std::nullopt;
  }
  const int nodes = std::max(point.cluster.nodes, 1);
  const int on_node = static_cast<int>(CeilDiv(point.layout.ranks(), nodes));
  const int threads = point.threads > 0 ? point.threads : std::max(1, measured->cores / on_node);
  const std::optional<RankRates> rates = measured->Rank(point.dtype, measured->cores > 0 ? threads : 1);
  if (!rates) {
    return std::nullopt;
  }
  MeasuredPrice price(point, *rates);
  price.threads_ = threads;
  price.all_sharing_ = price.SharingOf(on_node);
  price.stage_sharing_ = price.SharingOf(std::min(on_node, point.layout.ranks() / point.layout.pipeline));
  return price;
}

double MeasuredPrice::SharingOf(double ranks) const {
  const int cores = point_->cluster.measured->cores;
  return cores > 0 ? std::max(1.0, ranks * threads_ / cores) : 1;
}

double MeasuredPrice::Product(ProductPass pass, std::int64_t m, std::int64_t n, std::int64_t k, bool block) const {
  const DeviceSpec& device = point_->cluster.device;
  ProductLaw law = rates_[pass];
  if (block && point_->products != ProductFormat::kNative) {
    law.flops *= device.Peak(point_->products, point_->dtype) / device.Peak(point_->dtype);
  }
  return law.Seconds(static_cast<double>(m), static_cast<double>(n), static_cast<double>(k),
                     FilledShare(m, n, device.units));
}

double MeasuredPrice::Work(RankWork work, std::int64_t elements, int calls) const {
  return rates_[work].Seconds(static_cast<double>(elements) * calls, calls);
}

WorkTime MeasuredPrice::Forward(const LocalSizes& s) const {
  constexpr ProductPass kPass = ProductPass::kForward;
  const std::int64_t outside = s.outside * s.hidden;
  WorkTime time;
  time.matmul = Product(kPass, s.tokens, s.qkv, s.hidden, true) +
                Product(kPass, s.tokens, s.hidden, s.attention, true) +
                Product(kPass, s.tokens, s.ffn_in, s.hidden, true) + Product(kPass, s.tokens, s.hidden, s.ffn, true);
  time.attention = rates_[RankWork::kAttentionForward].Seconds(
      static_cast<double>(s.tokens) * static_cast<double>(s.sequence + 1) / 2 * 4 * static_cast<double>(s.attention));
  time.memory = Work(RankWork::kNormForward, outside, 2) + Work(RankWork::kResidual, outside);
  time.memory += Work(s.gated ? RankWork::kActivation : RankWork::kGelu, s.tokens * s.ffn);
  if (point_->model.position == PositionChoice::kRotary) {
    time.memory += Work(RankWork::kRotary, s.tokens * s.qkv);
  }
  return time;
}

WorkTime MeasuredPrice::BackwardInput(const LocalSizes& s) const {
  constexpr ProductPass kPass = ProductPass::kBackwardInput;
  const std::int64_t outside = s.outside * s.hidden;
  WorkTime time;
  time.matmul = Product(kPass, s.tokens, s.hidden, s.qkv, true) +
                Product(kPass, s.tokens, s.attention, s.hidden, true) +
                Product(kPass, s.tokens, s.hidden, s.ffn_in, true) + Product(kPass, s.tokens, s.ffn, s.hidden, true);
  time.attention = rates_[RankWork::kAttentionBackward].Seconds(
      static_cast<double>(s.tokens) * static_cast<double>(s.sequence + 1) / 2 * 10 * static_cast<double>(s.attention));
  time.memory = Work(RankWork::kNormBackward, outside, 2);
  time.memory += Work(s.gated ? RankWork::kActivationBackward : RankWork::kGeluGradient, s.tokens * s.ffn);
  if (s.dropout) {
    time.memory += Work(RankWork::kResidual, outside, 2);
  }
  if (point_->model.position == PositionChoice::kRotary) {
    time.memory += Work(RankWork::kRotary, s.tokens * s.qkv);
  }
  return time;
}

WorkTime MeasuredPrice::BackwardWeight(const LocalSizes& s) const {
  constexpr ProductPass kPass = ProductPass::kBackwardWeight;
  const std::int64_t outside = s.outside * s.hidden;
  WorkTime time;
  time.matmul = Product(kPass, s.qkv, s.hidden, s.tokens, true) +
                Product(kPass, s.hidden, s.attention, s.tokens, true) +
                Product(kPass, s.ffn_in, s.hidden, s.tokens, true) + Product(kPass, s.hidden, s.ffn, s.tokens, true);
  if (point_->model.biases) {
    time.memory += Work(RankWork::kBiasGradient, outside, 2) + Work(RankWork::kBiasGradient, s.tokens * s.ffn_in) +
                   Work(RankWork::kBiasGradient, s.tokens * s.qkv);
  }
  if (s.recompute_norms) {
    time.memory += Work(RankWork::kNormForward, outside, 2);
  }
  if (s.recompute_activation) {
    time.memory += Work(RankWork::kActivation, s.tokens * s.ffn);
  }
  return time;
}

ModuleTime MeasuredPrice::Block(const LocalSizes& s) const {
  const ModuleCost cost = CostOfBlock(s, point_->model);
  ModuleTime time;
  time.forward = Forward(s);
  time.backward_input = BackwardInput(s);
  time.backward_weight = BackwardWeight(s);
  if (s.recompute_block) {
    time.recomputed = time.forward;
    time.recomputed.matmul -= Product(ProductPass::kForward, s.tokens, s.hidden, s.ffn, true);
    time.recomputed.memory -= Work(RankWork::kResidual, s.outside * s.hidden);
  } else if (s.recompute_attention) {
    time.recomputed.attention = time.forward.attention;
  }
  time.backward_input += time.recomputed;
  if (s.recompute_block) {
    time.backward_input += time.backward_weight;
    time.backward_weight = {};
  }
  time = time * stage_sharing_;
  time.forward.tensor = TensorSeconds(cost.forward.tensor);
  time.backward_input.tensor = TensorSeconds(cost.backward_input.tensor);
  time.backward_weight.tensor = TensorSeconds(cost.backward_weight.tensor);
  return time;
}

ModuleTime MeasuredPrice::Head(const LocalSizes& s) const {
  const std::int64_t outside = s.outside * s.hidden;
  ModuleTime time;
  time.forward.matmul = Product(ProductPass::kForward, s.tokens, s.vocabulary, s.hidden, false) +
                        Product(ProductPass::kBackwardInput, s.tokens, s.hidden, s.vocabulary, false) +
                        Product(ProductPass::kBackwardWeight, s.vocabulary, s.hidden, s.tokens, false);
  time.forward.memory = Work(RankWork::kLoss, s.tokens * s.vocabulary) + Work(RankWork::kNormForward, outside) +
                        Work(RankWork::kNormBackward, outside) + Work(RankWork::kResidual, outside);
  time = time * stage_sharing_;
  time.forward.tensor = TensorSeconds(CostOfHead(s, HeadChunk(s, 0)).forward.tensor);
  return time;
}

ModuleTime MeasuredPrice::Embedding(const LocalSizes& s) const {
  const ModelConfig& model = point_->model;
  const ModuleCost cost = CostOfEmbedding(s, model);
  const std::int64_t outside = s.outside * s.hidden;
  ModuleTime time;
  time.forward.memory = Work(RankWork::kEmbedding, s.tokens * s.hidden);
  time.backward_input.memory = Work(RankWork::kEmbeddingBackward, s.tokens * s.hidden);
  if (model.position == PositionChoice::kLearned) {
    time.forward.memory += Work(RankWork::kResidual, outside);
    time.backward_input.memory += Work(RankWork::kResidual, outside);
  }
  if (model.embedding_norm) {
    time.forward.memory += Work(RankWork::kNormForward, outside);
    time.backward_input.memory += Work(RankWork::kNormBackward, outside);
  }
  time = time * stage_sharing_;
  time.forward.tensor = TensorSeconds(cost.forward.tensor);
  time.backward_input.tensor = TensorSeconds(cost.backward_input.tensor);
  return time;
}

double MeasuredPrice::Collective(CollectiveKind kind, DType dtype, double bytes, double calls,
                                 const GroupPlacement& group) const {
  if (group.size <= 1 || bytes <= 0) {
    return 0;
  }
  const bool across = point_->cluster.nodes > 1 && group.crosses_nodes();
  const std::optional<GroupRates> rates = point_->cluster.measured->Group(dtype, group.size, across ? 2 : 1);
  const RateLaw* const law = rates ? rates->Of(kind) : nullptr;
  if (law == nullptr) {
    return CollectiveSeconds(kind, bytes, calls, group, point_->cluster, {.device = 1, .node = 1, .latency = 1});
  }
  // A group was measured alone; others at the same time take turns with it on the cores.
  return law->Seconds(bytes, calls) * stage_sharing_ / std::min(stage_sharing_, SharingOf(group.size));
}

double MeasuredPrice::TensorSeconds(const Traffic& traffic) const {
  const GroupPlacement group = PlaceTensor(point_->cluster, point_->layout);
  double seconds = 0;
  for (const CollectiveKind kind :
       {CollectiveKind::kAllReduce, CollectiveKind::kAllGather, CollectiveKind::kReduceScatter}) {
    const auto k = static_cast<std::size_t>(kind);
    seconds += Collective(kind, point_->dtype, static_cast<double>(traffic.bytes[k]),
                          static_cast<double>(traffic.calls[k]), group);
  }
  return seconds;
}

double MeasuredPrice::Message(double bytes) const {
  const bool across = point_->cluster.nodes > 1 && StagesCrossNodes(point_->cluster, point_->layout);
  const std::optional<GroupRates> rates = point_->cluster.measured->Group(point_->dtype, 2, across ? 2 : 1);
  return rates ? rates->message.Seconds(bytes)
               : MessageSeconds(bytes, point_->cluster, point_->layout, point_->stack.efficiencies.message_link);
}

double MeasuredPrice::Update(double parameters, double owned) const {
  return all_sharing_ * (rates_[RankWork::kOptimizer].Seconds(owned) +
                         rates_[RankWork::kSquares].Seconds(parameters / point_->shards()));
}

double MeasuredPrice::Staging(double parameters, double owned) const {
  return stage_sharing_ * (rates_[RankWork::kFill].Seconds(parameters) + rates_[RankWork::kResidual].Seconds(owned));
}

double MeasuredPrice::Fixed(double tied_parameters) const {
  const ParallelLayout& layout = point_->layout;
  const GroupPlacement world{.size = layout.ranks(),
                             .per_node = std::min(layout.ranks(), point_->cluster.devices_per_node)};
  double seconds =
      point_->cluster.measured->step + Collective(CollectiveKind::kAllReduce, DType::kFloat32, 16, 1, world);
  if (layout.pipeline > 1) {
    seconds +=
        Collective(CollectiveKind::kAllReduce, DType::kFloat32, 4 * tied_parameters, 1, {.size = 2, .per_node = 2});
  }
  return seconds + all_sharing_ * rates_[RankWork::kFill].Seconds(tied_parameters);
}

}  // namespace trireme
