#include "planner/pricing/block_time.h"

#include <algorithm>
#include <numeric>

#include "base/causal_pairs.h"
#include "base/shape.h"
#include "lowering/linear_shape.h"
#include "planner/pricing/collective_time.h"
#include "planner/pricing/expert_time.h"
#include "planner/pricing/matmul_time.h"
#include "planner/pricing/price_model.h"

namespace trireme {
namespace {

// What separate kernels move beyond the fused softmax for each score and pass: a cast to fp32, scale, mask, softmax in
// fp32 and a cast back, 6 + 8 + 8 + 8 + 6 bytes less the 4 + 3 of one that reads and writes 16 bits.
constexpr double kUnfusedSoftmaxBytes = 29;

}  // namespace

double MemorySeconds(const PlanPoint& point, double bytes) {
  return bytes / (point.cluster.device.memory_bandwidth * point.stack.efficiencies.memory);
}

double GroupSeconds(const PlanPoint& point, const Traffic& traffic, const GroupPlacement& group) {
  const LinkShares shares = InnerShares(point);
  double seconds = 0;
  for (const auto& [kind, bytes, calls] : CollectivesOf(traffic, group.size)) {
    seconds += CollectiveSeconds(kind, bytes, calls, group, point.cluster, shares);
  }
  return seconds;
}

double TensorSeconds(const PlanPoint& point, const Traffic& traffic) {
  return GroupSeconds(point, traffic, PlaceTensor(point.cluster, point.config.layout));
}

bool FusesSoftmax(const PlanPoint& point) {
  const int multiple = point.stack.time.softmax_multiple;
  const ParallelLayout& layout = point.config.layout;
  return multiple == 0 || point.config.model.heads / layout.tensor * layout.micro_batch % multiple == 0;
}

AttentionSeconds TimeOfAttention(const PlanPoint& point, const LocalSizes& s, double exchange) {
  const Efficiencies& e = point.stack.efficiencies;
  const double seen = static_cast<double>(CausalPairs(s.keys, s.window)) / static_cast<double>(CausalPairs(s.keys));
  const double pairs = static_cast<double>(s.tokens) * static_cast<double>(s.keys) * seen;
  const double wider = point.config.model.latent.any() ? 1 + static_cast<double>(point.config.model.latent.rope) /
                                                                 static_cast<double>(2 * s.head_size)
                                                       : 1;
  const double flops = 4 * pairs * wider * static_cast<double>(s.attention);
  const double peak = point.cluster.device.Peak(point.dtype());
  if (point.flash()) {
    const double forward = flops / 2 / FusedAttentionRate(point, s.head_size);
    return {.forward = std::max(forward, exchange), .backward = std::max(2.5 * forward, 2 * exchange)};
  }
  const double efficiency = HeadMisaligned(point) ? e.attention_unaligned : e.attention;
  const double scores = pairs * static_cast<double>(s.heads) *
                        (point.stack.time.score_bytes + (FusesSoftmax(point) ? 0 : kUnfusedSoftmaxBytes));
  const double forward = flops / (peak * efficiency) + MemorySeconds(point, scores);
  return {.forward = forward, .backward = 2 * forward};
}

namespace {

// Whether the product's operand comes by an all-gather of the tensor group: inputs of the layers that columns are cut
// of, gradients of the outputs of those that rows are.
bool WaitsForGather(const ProductStep& product) {
  const bool columns = product.linear == BlockLinear::kQkv || product.linear == BlockLinear::kFfnIn;
  return product.kind == (columns ? ProductKind::kForward : ProductKind::kInputGradient);
}

// The products of latent attention in place of the one that makes queries, keys and values. The narrow ones are of all
// heads on every tensor rank.
double LatentSeconds(const PlanPoint& point, const ProductStep& product, const MatmulPrice& price) {
  const ModelConfig& model = point.config.model;
  const LatentAttention& latent = model.latent;
  const std::int64_t heads = model.heads / point.config.layout.tensor;
  const std::int64_t rows = product.kind == ProductKind::kWeightGradient ? product.depth : product.rows;
  const auto seconds = [&](std::int64_t outputs, std::int64_t inputs) {
    switch (product.kind) {
      case ProductKind::kForward:
        break;
      case ProductKind::kInputGradient:
        return price.Seconds({rows, inputs, outputs});
      case ProductKind::kWeightGradient:
        return price.Seconds({outputs, inputs, rows});
    }
    return price.Seconds({rows, outputs, inputs});
  };
  const std::int64_t wide = heads * (model.head_size() + latent.rope);
  const double queries = latent.query_rank > 0
                             ? seconds(latent.query_rank, model.hidden) + seconds(wide, latent.query_rank)
                             : seconds(wide, model.hidden);
  return queries + seconds(latent.kv_rank + latent.rope, model.hidden) +
         seconds(2 * heads * model.head_size(), latent.kv_rank);
}

double ProductSeconds(const PlanPoint& point, const ProductStep& product, const MatmulPrice& price) {
  if (product.linear == BlockLinear::kQkv && point.config.model.latent.any()) {
    return LatentSeconds(point, product, price);
  }
  const std::int64_t tensor = point.config.layout.tensor;
  const bool parts = point.stack.time.products_in_parts && tensor > 1 && point.config.layout.sequence_parallel &&
                     product.rows >= tensor && WaitsForGather(product);
  if (!parts) {
    return price.Seconds({product.rows, product.columns, product.depth});
  }
  // A rank in the middle is the slowest: its own tokens, then those before and after them.
  const std::int64_t own = product.rows / tensor;
  const std::int64_t before = (product.rows - own) / 2;
  const std::int64_t after = product.rows - own - before;
  const auto part = [&](std::int64_t rows) {
    return rows > 0 ? price.Seconds({rows, product.columns, product.depth}) : 0.0;
  };
  return tensor == 2 ? part(own) + part(product.rows - own) : part(own) + part(before) + part(after);
}

// Experts have equally many rows. They are not cast to fp8.
double SecondsOfGroups(const MatmulPrice& native, const GroupedProductStep& step) {
  const std::int64_t rows = CeilDiv(step.rows, step.experts);
  const auto experts = static_cast<double>(step.experts);
  switch (step.product) {
    case GroupedProduct::kForward:
      break;
    case GroupedProduct::kInputGradient:
      return experts * native.Seconds({rows, step.inputs, step.outputs});
    case GroupedProduct::kWeightGradient:
      return experts * native.Seconds({step.outputs, step.inputs, rows});
  }
  return experts * native.Seconds({rows, step.outputs, step.inputs});
}

}  // namespace

double AddProducts(const PlanPoint& point, const ModuleProgram& program, bool with_experts, ModuleTime& time) {
  const MatmulPrice native = ProductPrice(point, ProductFormat::kNative);
  const MatmulPrice cast = ProductPrice(point, point.products());
  double last = 0;
  for (const std::vector<ProgramStep>* steps : {&program.forward, &program.backward, &program.backward_weight}) {
    for (const ProgramStep& step : *steps) {
      const auto* product = std::get_if<ProductStep>(&step.work);
      const auto* grouped = with_experts ? std::get_if<GroupedProductStep>(&step.work) : nullptr;
      if ((product == nullptr && grouped == nullptr) || step.recomputed) {
        continue;
      }
      const bool forward =
          grouped != nullptr ? grouped->product == GroupedProduct::kForward : product->kind == ProductKind::kForward;
      const MatmulPrice& price = product != nullptr && Holds(point.linears(), product->linear) ? cast : native;
      const double seconds =
          grouped != nullptr ? SecondsOfGroups(native, *grouped) : ProductSeconds(point, *product, price);
      if (forward) {
        time.forward.matmul += last = seconds;
      } else {
        (step.weight_part ? time.backward_weight : time.backward_input).matmul += seconds;
      }
    }
  }
  return last;
}

namespace {

double CastBytes(const PlanPoint& point) {
  const TimeTraits& time = point.stack.time;
  const double blocks = time.mx_cast_bytes > 0 ? time.mx_cast_bytes : time.cast_bytes;
  switch (point.products()) {
    case ProductFormat::kNative:
    case ProductFormat::kFloat8:
      return time.cast_bytes;
    case ProductFormat::kMxFloat8:
      return blocks;
    case ProductFormat::kNvFloat4:
      return time.fp4_cast_bytes > 0 ? time.fp4_cast_bytes : blocks;
  }
  return time.cast_bytes;
}

}  // namespace

// Inputs are cast in forward, gradients of outputs in backward; weights once a step, which is little.
void AddCasts(const PlanPoint& point, const LocalSizes& s, ModuleTime& time) {
  if (point.products() == ProductFormat::kNative) {
    return;
  }
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  for (int i = 0; i < kBlockLinears; ++i) {
    const auto linear = static_cast<BlockLinear>(i);
    if (Holds(point.linears(), linear)) {
      const LinearShape shape = ShapeOf(linear, s);
      inputs += shape.rows * shape.inputs;
      outputs += shape.rows * shape.outputs;
    }
  }
  if (s.experts > 0 && !point.prices.prices_every_recipe()) {
    const ExpertShare share = ShareOfExperts(point, s);
    const auto rows = static_cast<std::int64_t>(share.rows * share.imbalance);
    inputs += rows * (s.hidden + share.width);
    outputs += rows * ((s.gated ? 2 : 1) * share.width + s.hidden);
  }
  const double bytes = CastBytes(point);
  time.forward.memory += MemorySeconds(point, bytes * static_cast<double>(inputs));
  time.backward_input.memory += MemorySeconds(point, bytes * static_cast<double>(outputs));
}

void AddTensor(const PlanPoint& point, const ModuleCost& cost, ModuleTime& time) {
  const double shown = 1 - point.stack.time.tensor_overlap;
  time.forward.tensor = shown * TensorSeconds(point, cost.forward.tensor);
  time.backward_input.tensor = shown * TensorSeconds(point, cost.backward_input.tensor);
  time.backward_weight.tensor = shown * TensorSeconds(point, cost.backward_weight.tensor);
}

// A pass takes the longer of issuing its kernels and running them; where the host waits for each, both.
void AddHost(const PlanPoint& point, const LocalSizes& s, const ModuleCost& cost, bool second_forward,
             ModuleTime& time) {
  constexpr double kForwardShare = 0.4;  // of a layer's kernels
  const Efficiencies& e = point.stack.efficiencies;
  const bool stalls = point.config.layout.tensor > 1 && StagesCrossNodes(point.cluster, point.config.layout);
  const double experts = ExpertIssueSeconds(point, s);
  const double issue = e.layer_seconds + (stalls ? e.stall_seconds * point.config.layout.tensor : 0);
  const auto collectives = [&](const WorkCost& work) {
    const auto& calls = work.tensor.calls;
    return point.stack.time.collective_seconds *
           static_cast<double>(std::accumulate(calls.begin(), calls.end(), std::int64_t{0}));
  };
  const double forward = kForwardShare * issue + experts + collectives(cost.forward);
  const double backward = (s.recompute_block ? 1 : 1 - kForwardShare) * issue + (s.recompute_block ? 3 : 2) * experts +
                          collectives(cost.backward_input) + collectives(cost.backward_weight) +
                          (second_forward ? collectives(cost.forward) / 2 : 0);
  const double runs_backward = time.backward_input.total() + time.backward_weight.total();
  const bool blocking = point.stack.time.blocking;
  time.backward_input.overhead += blocking ? backward : std::max(0.0, backward - runs_backward);
  time.forward.overhead += blocking ? forward : std::max(0.0, forward - time.forward.total());
}

double AddedGradients(const PlanPoint& point, double parameters) {
  return parameters * point.stack.time.accumulate_bytes /
         (point.cluster.device.memory_bandwidth * point.stack.efficiencies.memory);
}

double HostGradients(const PlanPoint& point, double parameters) {
  return point.stack.time.host_optimizer ? parameters * point.stack.time.gradient_bytes /
                                               (point.cluster.host_link.bandwidth * point.stack.efficiencies.host_link)
                                         : 0;
}

HeadProducts ProductsOfHead(const PlanPoint& point, const LocalSizes& s) {
  const MatmulPrice price = ProductPrice(point, ProductFormat::kNative);
  const std::int64_t vocabulary = point.prices.Vocabulary(point);
  return {.forward = price.Seconds({s.tokens, vocabulary, s.hidden}),
          .backward = price.Seconds({s.tokens, s.hidden, vocabulary}) +
                      (s.frozen ? 0 : price.Seconds({vocabulary, s.hidden, s.tokens}))};
}

}  // namespace trireme
