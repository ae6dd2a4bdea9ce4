#include "planner/pricing/measured_time.h"

#include <algorithm>
#include <variant>

#include "base/shape.h"
#include "planner/pricing/collective_time.h"
#include "planner/pricing/context_time.h"
#include "planner/pricing/matmul_time.h"

namespace trireme {

MeasuredTime::MeasuredTime(const PlanPoint& point) : point_(&point) {
  const MeasuredRates& measured = *point.cluster.measured;
  const int nodes = std::max(point.cluster.nodes, 1);
  const int on_node = static_cast<int>(CeilDiv(point.config.layout.ranks(), nodes));
  threads_ = point.threads() > 0 ? point.threads() : std::max(1, measured.cores / on_node);
  rates_ = measured.Rank(point.dtype(), measured.cores > 0 ? threads_ : 1).value();
  all_sharing_ = SharingOf(on_node);
  stage_sharing_ = SharingOf(std::min(on_node, point.config.layout.ranks() / point.config.layout.pipeline));
}

double MeasuredTime::SharingOf(double ranks) const {
  const int cores = point_->cluster.measured->cores;
  // A rank with more threads than there are cores was measured with as many: it shares them with other ranks alone.
  return cores > 0 ? std::max(1.0, ranks * std::min(threads_, cores) / cores) : 1;
}

double MeasuredTime::Product(ProductPass pass, std::int64_t m, std::int64_t n, std::int64_t k,
                             ProductFormat format) const {
  const DeviceSpec& device = point_->cluster.device;
  ProductLaw law = rates_[pass];
  if (format != ProductFormat::kNative) {
    law.flops *= device.Peak(format, point_->dtype()) / device.Peak(point_->dtype());
  }
  // As calibrate fits them: a gradient of weights has few tiles and a long sum, which libraries cut as well.
  const double filled = pass == ProductPass::kBackwardWeight ? 1 : FilledShare(m, n, device.units);
  return law.Seconds(static_cast<double>(m), static_cast<double>(n), static_cast<double>(k), filled);
}

double MeasuredTime::Work(RankWork work, std::int64_t elements, int calls) const {
  return rates_[work].Seconds(static_cast<double>(elements) * calls, calls);
}

namespace {

ProductPass PassOf(ProductKind kind) {
  switch (kind) {
    case ProductKind::kInputGradient:
      return ProductPass::kBackwardInput;
    case ProductKind::kWeightGradient:
      return ProductPass::kBackwardWeight;
    case ProductKind::kForward:
      break;
  }
  return ProductPass::kForward;
}

}  // namespace

// Seconds of each kind of step: one that is no operation of ops/operations.h and has no function here does not compile.
struct MeasuredTime::StepPrice {
  const MeasuredTime& price;
  const ModuleProgram& program;
  const LocalSizes& s;

  WorkTime operator()(const ProductStep& step) const {
    const std::int64_t out = step.rows * step.columns;
    double epilogue = 0;
    switch (step.epilogue) {
      case Epilogue::kNone:
        break;
      case Epilogue::kGelu:
        epilogue = price.Work(RankWork::kGelu, out);
        break;
      case Epilogue::kGeluGradient:
        epilogue = price.Work(RankWork::kGeluGradient, out);
        break;
      case Epilogue::kResidual:
        // A separate sum moves three tensors; as an epilogue it reads one of them.
        epilogue = price.Work(RankWork::kResidual, out) / 3;
        break;
    }
    const ProductFormat format = price.point_->FormatOf(step.linear);
    return {.matmul = price.Product(PassOf(step.kind), step.rows, step.columns, step.depth, format),
            .memory = epilogue};
  }
  // Experts have equally many rows.
  WorkTime operator()(const GroupedProductStep& step) const {
    const std::int64_t rows = CeilDiv(step.rows, step.experts);
    const auto seconds = [&](ProductPass pass, std::int64_t m, std::int64_t n, std::int64_t k) {
      return WorkTime{.matmul =
                          static_cast<double>(step.experts) * price.Product(pass, m, n, k, ProductFormat::kNative)};
    };
    switch (step.product) {
      case GroupedProduct::kForward:
        break;
      case GroupedProduct::kInputGradient:
        return seconds(ProductPass::kBackwardInput, rows, step.inputs, step.outputs);
      case GroupedProduct::kWeightGradient:
        return seconds(ProductPass::kBackwardWeight, step.outputs, step.inputs, rows);
    }
    return seconds(ProductPass::kForward, rows, step.outputs, step.inputs);
  }
  WorkTime operator()(const AttentionStep& step) const {
    return WithWeights(Attention(RankWork::kAttentionForward, 4), step.weights, 3);
  }
  WorkTime operator()(const RingAttentionStep&) const { return Attention(RankWork::kAttentionForward, 4); }
  WorkTime operator()(const AttentionBackwardStep& step) const {
    return WithWeights(Attention(RankWork::kAttentionBackward, s.plain_attention ? 8 : 10), step.weights, 4);
  }
  WorkTime operator()(const RingAttentionBackwardStep&) const { return Attention(RankWork::kAttentionBackward, 10); }
  WorkTime operator()(const SumStep& step) const { return Over(RankWork::kResidual, step.x); }
  WorkTime operator()(const NormStep& step) const { return Over(RankWork::kNormForward, step.x); }
  WorkTime operator()(const NormBackwardStep& step) const { return Over(RankWork::kNormBackward, step.x); }
  // The step that fills sums or products is priced with the one that reads them.
  WorkTime operator()(const HeadNormStep& step) const {
    return step.out == kNoId ? WorkTime{} : Over(RankWork::kNormForward, step.x);
  }
  WorkTime operator()(const HeadNormBackwardStep& step) const {
    return step.query_gradient == kNoId ? WorkTime{} : Over(RankWork::kNormBackward, step.x);
  }
  // calibrate measures these operations of ops/operations.h.
  WorkTime operator()(const ActivationForward<TensorId>& op) const { return Over(RankWork::kActivation, op.to.id); }
  WorkTime operator()(const ActivationBackward<TensorId>& op) const {
    return Over(RankWork::kActivationBackward, op.grad_out.id);
  }
  WorkTime operator()(const Rotary<TensorId>& op) const { return Over(RankWork::kRotary, op.qkv.id); }
  // Others take the time of a residual sum of their largest buffer.
  template <template <typename> class Op>
  WorkTime operator()(const Op<TensorId>& op) const {
    std::int64_t largest = 0;
    for (const auto& use : Op<TensorId>::Operands()) {
      const TensorId tensor = op.*use.member;
      if (use.owner == Owner::kBuffer && tensor.given()) {
        largest = std::max(largest, Elements(tensor.id));
      }
    }
    return Copies(largest);
  }
  // The embedding's, in place, is not priced.
  WorkTime operator()(const DropoutStep& step) const {
    return step.from == step.to ? WorkTime{} : Over(RankWork::kResidual, step.from);
  }
  WorkTime operator()(const LookupStep& step) const { return Over(RankWork::kEmbedding, step.out); }
  WorkTime operator()(const LookupBackwardStep& step) const {
    return Over(RankWork::kEmbeddingBackward, step.grad_out);
  }
  WorkTime operator()(const CopyStep& step) const { return Over(RankWork::kResidual, step.from); }
  // Two tensors of the three that a sum moves; an adapter's few columns, and what has no place here, are not priced.
  WorkTime operator()(const ScaleStep& step) const {
    const Shape& shape = program.buffers[static_cast<std::size_t>(step.x)].shape;
    return shape.rank() < 2 || shape[1] < s.hidden
               ? WorkTime{}
               : WorkTime{.memory = price.Work(RankWork::kResidual, shape.count()) * 2 / 3};
  }
  WorkTime operator()(const CrossEntropyStep&) const {
    return {.memory = price.Work(RankWork::kLoss, s.tokens * s.vocabulary)};
  }
  // A rank copies its own keys.
  WorkTime operator()(const CopyKeysStep& step) const { return Copies(Elements(step.kv) / s.context); }
  WorkTime operator()(const CopyHeadsStep& step) const { return Copies(Elements(step.from)); }
  WorkTime operator()(const BiasGradientStep& step) const {
    return {.memory = price.Work(RankWork::kBiasGradient, step.own_rows ? s.outside * s.hidden : Elements(step.rows))};
  }
  // Priced by the traffic of a pass.
  WorkTime operator()(const CollectiveStep&) const { return {}; }
  // calibrate measures no copy, but what it adds up.
  WorkTime operator()(const QuantizeStep& step) const {
    return step.bias == kNoId ? WorkTime{}
                              : WorkTime{.memory = price.Work(RankWork::kBiasGradient, Elements(step.from))};
  }
  // calibrate measures none of these.
  WorkTime operator()(const ClearStep&) const { return {}; }
  WorkTime operator()(const AddGradientStep&) const { return {}; }
  WorkTime operator()(const SoftCap<TensorId>&) const { return {}; }
  WorkTime operator()(const ShowLogitsStep&) const { return {}; }
  WorkTime operator()(const LossSumStep&) const { return {}; }
  // Part of a loss, of which CrossEntropyStep has all seconds.
  WorkTime operator()(const LossStatisticsStep&) const { return {}; }

 private:
  std::int64_t Elements(BufferId id) const { return program.buffers[static_cast<std::size_t>(id)].shape.count(); }
  WorkTime Over(RankWork work, BufferId id) const { return {.memory = price.Work(work, Elements(id))}; }
  WorkTime Copies(std::int64_t elements) const { return {.memory = price.Work(RankWork::kResidual, elements)}; }
  // CPUs leave out what the mask hides in plain attention too.
  WorkTime Attention(RankWork work, double flops) const {
    const std::int64_t pairs = price.point_->cluster.device.is_host ? s.SeenPairs() : s.HeadPairs();
    return {.attention = price.rates_[work].Seconds(flops * static_cast<double>(s.batch * pairs * s.head_size))};
  }
  // Passes over the weights of plain attention: on a CPU one.
  WorkTime WithWeights(WorkTime time, BufferId weights, int passes) const {
    if (weights != kNoId) {
      time += Copies(Elements(weights)) * (price.point_->cluster.device.is_host ? 1 : passes);
    }
    return time;
  }
};

WorkTime MeasuredTime::StepTime(const ProgramStep& step, const ModuleProgram& program, const LocalSizes& s) const {
  return std::visit(StepPrice{*this, program, s}, step.work);
}

ModuleTime MeasuredTime::Steps(const LocalSizes& s, const ModuleProgram& program, const ModuleCost& cost) const {
  ModuleTime time;
  for (const ProgramStep& step : program.forward) {
    time.forward += StepTime(step, program, s);
  }
  for (const std::vector<ProgramStep>* steps : {&program.backward, &program.backward_weight}) {
    for (const ProgramStep& step : *steps) {
      const WorkTime seconds = StepTime(step, program, s);
      (step.weight_part && !s.recompute_block ? time.backward_weight : time.backward_input) += seconds;
      if (step.recomputed) {
        time.recomputed += seconds;
      }
    }
  }
  time = time * stage_sharing_;
  time.forward.tensor = TensorSeconds(cost.forward.tensor);
  time.backward_input.tensor = TensorSeconds(cost.backward_input.tensor);
  time.backward_weight.tensor = TensorSeconds(cost.backward_weight.tensor);
  return time;
}

ModuleTime MeasuredTime::Block(const LocalSizes& s, const ModuleProgram& program) const {
  const ModuleCost cost = CostOfBlock(s, program);
  ModuleTime time = Steps(s, program, cost);
  const AttentionSeconds attention{.forward = time.forward.attention,
                                   .backward = time.backward_input.attention - time.recomputed.attention};
  const ContextWait wait = WaitForContext(s, cost, attention, !point_->cluster.device.is_host,
                                          [this](const Traffic& traffic) { return ContextSeconds(traffic); });
  time.forward.context = wait.forward;
  time.backward_input.context = wait.backward;
  return time;
}

ModuleTime MeasuredTime::Head(const LocalSizes& s) const {
  const std::int64_t chunk = HeadChunk(s, 0);
  return Steps(s, PlanHead(point_->config.model, s, chunk), CostOfHead(s, point_->config.model, chunk));
}

ModuleTime MeasuredTime::Embedding(const LocalSizes& s) const {
  return Steps(s, PlanEmbedding(point_->config.model, s), CostOfEmbedding(s, point_->config.model));
}

double MeasuredTime::Collective(CollectiveKind kind, DType dtype, double bytes, double calls,
                                const GroupPlacement& group) const {
  if (group.size <= 1 || bytes <= 0) {
    return 0;
  }
  const bool across = point_->cluster.nodes > 1 && group.crosses_nodes();
  const std::optional<GroupRates> rates = point_->cluster.measured->Group(dtype, group.size, across ? 2 : 1);
  const RateLaw* const law = rates ? rates->Of(kind) : nullptr;
  if (law == nullptr) {
    // The links of a cluster file are those of members that have a core each.
    return stage_sharing_ *
           CollectiveSeconds(kind, bytes, calls, group, point_->cluster, {.device = 1, .node = 1, .latency = 1});
  }
  // A group was measured alone; others at the same time take turns with it on the cores when they copy. A rank that
  // waits for the rest of its group leaves its core to them.
  const double turns = stage_sharing_ / std::min(stage_sharing_, SharingOf(group.size));
  return calls * law->call + turns * law->Seconds(bytes, 0);
}

double MeasuredTime::TensorSeconds(const Traffic& traffic) const {
  return GroupSeconds(traffic, PlaceTensor(point_->cluster, point_->config.layout));
}

double MeasuredTime::ContextSeconds(const Traffic& traffic) const {
  double seconds = 0;
  for (const auto& [part, group] : PlaceContextTraffic(
           point_->cluster, point_->config.layout, HeadRanks(point_->config.model, point_->config.layout), traffic)) {
    seconds += GroupSeconds(part, group);
  }
  return seconds;
}

double MeasuredTime::GroupSeconds(const Traffic& traffic, const GroupPlacement& group) const {
  double seconds = 0;
  for (const auto& [kind, bytes, calls] : CollectivesOf(traffic, group.size)) {
    seconds += Collective(kind, point_->dtype(), bytes, calls, group);
  }
  return seconds;
}

double MeasuredTime::Message(double bytes) const {
  const bool across = point_->cluster.nodes > 1 && StagesCrossNodes(point_->cluster, point_->config.layout);
  const std::optional<GroupRates> rates = point_->cluster.measured->Group(point_->dtype(), 2, across ? 2 : 1);
  return rates ? rates->message.Seconds(bytes)
               : MessageSeconds(bytes, point_->cluster, point_->config.layout, point_->stack.efficiencies.message_link);
}

double MeasuredTime::Update(double parameters, double owned) const {
  return all_sharing_ * (rates_[RankWork::kOptimizer].Seconds(owned) +
                         rates_[RankWork::kSquares].Seconds(parameters / point_->shards()));
}

double MeasuredTime::Staging(double parameters, double owned) const {
  return stage_sharing_ * (rates_[RankWork::kFill].Seconds(parameters) + rates_[RankWork::kResidual].Seconds(owned));
}

double MeasuredTime::Fixed(double tied_parameters) const {
  const ParallelLayout& layout = point_->config.layout;
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
