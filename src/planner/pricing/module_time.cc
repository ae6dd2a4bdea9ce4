#include "planner/pricing/module_time.h"

#include <algorithm>
#include <numeric>

#include "base/causal_pairs.h"
#include "base/shape.h"
#include "lowering/linear_shape.h"
#include "model/parameter_table.h"
#include "planner/pricing/collective_time.h"
#include "planner/pricing/context_time.h"
#include "planner/pricing/matmul_time.h"
#include "planner/pricing/measured_time.h"
#include "planner/pricing/pipeline_time.h"

namespace trireme {
namespace {

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
  return GroupSeconds(point, traffic, PlaceTensor(point.cluster, point.layout));
}

// Keys and values of a sequence that is cut over ranks: each passes them on around a ring while it works on its own.
// Our trainer's exchanges are steps of the block (WaitForContext).
double ContextSeconds(const PlanPoint& point, const LocalSizes& s) {
  if (point.layout.context <= 1 || point.stack.policy.counted_costs) {
    return 0;
  }
  const double bytes = static_cast<double>(s.tokens * point.layout.context * 2 * s.kv_heads * s.head_size) *
                       static_cast<double>(s.element());
  const LinkShares shares = InnerShares(point);
  return CollectiveSeconds(CollectiveKind::kAllGather, bytes, 1, PlaceContext(point.cluster, point.layout),
                           point.cluster, shares);
}

// Fused attention skips what the mask hides and pays half a forward more in backward; unfused attention computes all
// pairs and moves every score through memory.
AttentionSeconds TimeOfAttention(const PlanPoint& point, const LocalSizes& s) {
  const Efficiencies& e = point.stack.efficiencies;
  const double seen = static_cast<double>(CausalPairs(s.keys, s.window)) / static_cast<double>(CausalPairs(s.keys));
  const double pairs = static_cast<double>(s.tokens) * static_cast<double>(s.keys) * seen;
  const double flops = 4 * pairs * static_cast<double>(s.attention);
  const double peak = point.cluster.device.Peak(point.dtype);
  if (point.flash) {
    const double forward = flops / 2 / FusedAttentionRate(point, s.head_size);
    const double exchange = ContextSeconds(point, s);
    return {.forward = std::max(forward, exchange), .backward = std::max(2.5 * forward, 2 * exchange)};
  }
  const double efficiency = HeadMisaligned(point) ? e.attention_unaligned : e.attention;
  const double scores = pairs * static_cast<double>(s.heads) * point.stack.time.score_bytes;
  const double forward = flops / (peak * efficiency) + MemorySeconds(point, scores);
  return {.forward = forward, .backward = 2 * forward};
}

// Element-wise bytes of one pass, by the stack's account.
double PassBytes(const PlanPoint& point, const LocalSizes& s) {
  const double element = static_cast<double>(s.element()) / 2;
  const double outside = static_cast<double>(s.outside) * static_cast<double>(s.hidden);
  const double inside = static_cast<double>(s.tokens) * static_cast<double>(s.ffn_in + s.qkv) / 7;
  return element * (point.stack.time.outside_bytes * outside + point.stack.time.inside_bytes * inside);
}

// Casts of what enters the products to 8 bits or fewer: inputs in forward, gradients of outputs in backward. Weights
// are cast once a step, which is little.
void AddCasts(const PlanPoint& point, const LocalSizes& s, ModuleTime& time) {
  if (point.products == ProductFormat::kNative) {
    return;
  }
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  for (int i = 0; i < kBlockLinears; ++i) {
    const auto linear = static_cast<BlockLinear>(i);
    if (Holds(point.linears, linear)) {
      const LinearShape shape = ShapeOf(linear, s);
      inputs += shape.rows * shape.inputs;
      outputs += shape.rows * shape.outputs;
    }
  }
  time.forward.memory += MemorySeconds(point, point.stack.time.cast_bytes * static_cast<double>(inputs));
  time.backward_input.memory += MemorySeconds(point, point.stack.time.cast_bytes * static_cast<double>(outputs));
}

// A pass takes the longer of issuing its kernels and running them; where the host waits for each, both.
void AddHost(const PlanPoint& point, const LocalSizes& s, const ModuleCost& cost, ModuleTime& time) {
  constexpr double kForwardShare = 0.4;  // of a layer's kernels
  const Efficiencies& e = point.stack.efficiencies;
  const bool stalls = point.layout.pipeline > 1 && point.layout.tensor > 1;
  const double issue = e.layer_seconds + (stalls ? e.stall_seconds * point.layout.tensor : 0);
  const auto collectives = [&](const WorkCost& work) {
    const auto& calls = work.tensor.calls;
    return point.stack.time.collective_seconds *
           static_cast<double>(std::accumulate(calls.begin(), calls.end(), std::int64_t{0}));
  };
  const double forward = kForwardShare * issue + collectives(cost.forward);
  // Their second forward also reduces the last product.
  const bool whole = s.recompute_block && !point.stack.policy.counted_costs && point.stack.time.recompute_whole;
  const double backward = (s.recompute_block ? 1 : 1 - kForwardShare) * issue + collectives(cost.backward_input) +
                          collectives(cost.backward_weight) + (whole ? collectives(cost.forward) / 2 : 0);
  const double runs_backward = time.backward_input.total() + time.backward_weight.total();
  const bool blocking = point.stack.time.blocking;
  time.backward_input.overhead += blocking ? backward : std::max(0.0, backward - runs_backward);
  time.forward.overhead += blocking ? forward : std::max(0.0, forward - time.forward.total());
}

// Seconds of the products of each pass, recomputation left out. Returns those of forward's last one.
double AddProducts(const PlanPoint& point, const ModuleProgram& program, ModuleTime& time) {
  const MatmulPrice native = ProductPrice(point, ProductFormat::kNative);
  const MatmulPrice cast = ProductPrice(point, point.products);
  double last = 0;
  for (const std::vector<ProgramStep>* steps : {&program.forward, &program.backward, &program.backward_weight}) {
    for (const ProgramStep& step : *steps) {
      const auto* product = std::get_if<ProductStep>(&step.work);
      if (product == nullptr || step.recomputed) {
        continue;
      }
      const MatmulPrice& price = Holds(point.linears, product->linear) ? cast : native;
      const double seconds = price.Seconds({product->rows, product->columns, product->depth});
      if (product->kind == ProductKind::kForward) {
        time.forward.matmul += last = seconds;
      } else {
        (step.weight_part ? time.backward_weight : time.backward_input).matmul += seconds;
      }
    }
  }
  return last;
}

}  // namespace

WorkTime& WorkTime::operator+=(const WorkTime& other) {
  matmul += other.matmul;
  attention += other.attention;
  memory += other.memory;
  tensor += other.tensor;
  context += other.context;
  overhead += other.overhead;
  return *this;
}

WorkTime WorkTime::operator*(double times) const {
  return {matmul * times, attention * times, memory * times, tensor * times, context * times, overhead * times};
}

ModuleTime& ModuleTime::operator+=(const ModuleTime& other) {
  forward += other.forward;
  backward_input += other.backward_input;
  backward_weight += other.backward_weight;
  recomputed += other.recomputed;
  return *this;
}

ModuleTime ModuleTime::operator*(double times) const {
  return {forward * times, backward_input * times, backward_weight * times, recomputed * times};
}

LocalSizes SizesOf(const PlanPoint& point) {
  return {point.model, point.layout, point.dtype, SplitsBackward(point.layout.schedule),
          point.stack.policy.counted_costs && !point.flash};
}

std::int64_t LocalVocabulary(const PlanPoint& point) {
  if (point.stack.policy.counted_costs) {
    return PaddedShare(point.model.vocabulary, point.layout.tensor);
  }
  const std::int64_t unit = static_cast<std::int64_t>(point.stack.time.vocabulary_multiple) * point.layout.tensor;
  return RoundUp(point.model.vocabulary, unit) / point.layout.tensor;
}

MatmulPrice ProductPrice(const PlanPoint& point, ProductFormat format) {
  return {.device = point.cluster.device,
          .dtype = point.dtype,
          .format = format,
          .efficiency = point.stack.efficiencies.matmul,
          .memory_efficiency = point.stack.efficiencies.memory,
          .wave_weight = point.stack.time.wave_weight};
}

double FusedAttentionRate(const PlanPoint& point, std::int64_t head_size) {
  // Kernels are made for heads of 128; narrower ones leave matrix units idle, wider ones spill.
  const double suits = head_size == 128 ? 1 : (head_size % 64 == 0 ? 0.85 : 0.75);
  const double generation = point.stack.time.flash_old ? point.cluster.device.old_matrix_share : 1;
  return point.cluster.device.Peak(point.dtype) * point.stack.efficiencies.flash * point.stack.time.flash_share *
         suits * generation;
}

LinkShares InnerShares(const PlanPoint& point) {
  return {.device = point.stack.efficiencies.tensor_link,
          .node = point.stack.efficiencies.tensor_node_link,
          .latency = point.stack.efficiencies.node_latency};
}

LinkShares OuterShares(const PlanPoint& point) {
  return {.device = point.stack.efficiencies.data_device_link,
          .node = point.stack.efficiencies.data_link,
          .latency = point.stack.efficiencies.node_latency};
}

bool HeadMisaligned(const PlanPoint& point) {
  return !point.flash && point.model.head_size() % point.stack.time.head_multiple != 0;
}

namespace {

ModuleTime TimeOfLayer(const PlanPoint& point, const LocalSizes& s, const ModuleProgram& program) {
  if (const std::optional<MeasuredPrice> measured = MeasuredPrice::Of(point)) {
    return measured->Block(s, program);
  }
  const bool counted = point.stack.policy.counted_costs;
  const ModuleCost cost = CostOfBlock(s, program);
  const AttentionSeconds attention = TimeOfAttention(point, s);
  ModuleTime time;
  const double last_product = AddProducts(point, program, time);
  time.forward.attention = attention.forward;
  time.backward_input.attention = attention.backward;
  time.forward.memory =
      MemorySeconds(point, counted ? static_cast<double>(cost.forward.bytes_touched) : PassBytes(point, s));

  WorkTime& again = time.recomputed;
  if (s.recompute_block) {
    again = time.forward;
    if (counted || !point.stack.time.recompute_whole) {
      again.matmul -= last_product;
    }
  } else if (s.recompute_attention) {
    again.attention = counted || point.stack.time.selective_attention ? attention.forward : 0;
    again.matmul = counted ? 0 : point.stack.time.selective_products * time.forward.matmul;
  }
  if (counted) {
    // cost counts the second forward's bytes and collectives within the input part already.
    time.backward_input.memory = MemorySeconds(point, static_cast<double>(cost.backward_input.bytes_touched));
    time.backward_weight.memory = MemorySeconds(point, static_cast<double>(cost.backward_weight.bytes_touched));
    again.memory = 0;
  } else {
    time.backward_input.memory = point.stack.time.backward_bytes * time.forward.memory;
  }
  const double shown = 1 - point.stack.time.tensor_overlap;
  time.forward.tensor = shown * TensorSeconds(point, cost.forward.tensor);
  time.backward_input.tensor = shown * TensorSeconds(point, cost.backward_input.tensor);
  time.backward_weight.tensor = shown * TensorSeconds(point, cost.backward_weight.tensor);
  if (counted) {
    const auto exchange = [&](const Traffic& traffic) {
      double seconds = 0;
      for (const auto& [part, group] : PlaceContextTraffic(point.cluster, point.layout, s.head_ranks, traffic)) {
        seconds += GroupSeconds(point, part, group);
      }
      return seconds;
    };
    const ContextWait wait = WaitForContext(s, cost, attention, !point.cluster.device.is_host, exchange);
    time.forward.context = wait.forward;
    time.backward_input.context = wait.backward;
  }
  if (s.recompute_block && !counted && point.stack.time.recompute_whole) {
    // Their second forward also reduces the last product, whose output is not needed.
    time.backward_input.tensor += time.forward.tensor / 2;
  }
  AddCasts(point, s, time);
  time.backward_input += again;
  AddHost(point, s, cost, time);
  if (s.recompute_block) {
    time.backward_input += time.backward_weight;
    time.backward_weight = {};
  }
  return time;
}

}  // namespace

ModuleTime TimeOfBlock(const PlanPoint& point, const LocalSizes& s) {
  return TimeOfBlock(point, s, PlanBlock(point.model, s));
}

// Windows change what attention costs, not the program.
ModuleTime TimeOfBlock(const PlanPoint& point, const LocalSizes& s, const ModuleProgram& program) {
  const ModelConfig& model = point.model;
  if (model.window == 0 || model.window_period == 0) {
    return TimeOfLayer(point, s, program);
  }
  // The average of a model's blocks, of which some see all keys.
  const std::int64_t full_layers = model.layers / model.window_period;
  const double whole = static_cast<double>(full_layers) / static_cast<double>(model.layers);
  LocalSizes windowed = s;
  windowed.window = model.window;
  LocalSizes full = s;
  full.window = 0;
  ModuleTime time = TimeOfLayer(point, windowed, program) * (1 - whole);
  time += TimeOfLayer(point, full, program) * whole;
  return time;
}

ModuleTime TimeOfHead(const PlanPoint& point, const LocalSizes& s) {
  if (const std::optional<MeasuredPrice> measured = MeasuredPrice::Of(point)) {
    return measured->Head(s);
  }
  const MatmulPrice price = ProductPrice(point, ProductFormat::kNative);
  const std::int64_t vocabulary = LocalVocabulary(point);
  const double forward = price.Seconds({s.tokens, vocabulary, s.hidden});
  const double backward = price.Seconds({s.tokens, s.hidden, vocabulary}) +
                          (s.frozen ? 0 : price.Seconds({vocabulary, s.hidden, s.tokens}));
  ModuleTime time;
  if (point.stack.policy.counted_costs) {
    // The trainer's head computes gradients as soon as a chunk of logits exists.
    const ModuleCost cost = CostOfHead(s, point.model, HeadChunk(s, 0));
    time.forward.matmul = forward + backward;
    time.forward.memory = MemorySeconds(point, static_cast<double>(cost.forward.bytes_touched));
    time.forward.tensor = TensorSeconds(point, cost.forward.tensor);
    return time;
  }
  const double logits = static_cast<double>(s.tokens) * static_cast<double>(vocabulary);
  time.forward.matmul = forward;
  time.backward_input.matmul = backward;
  time.forward.memory = MemorySeconds(point, point.stack.time.logit_bytes * logits / 2);
  time.backward_input.memory = time.forward.memory;
  return time;
}

ModuleTime TimeOfEmbedding(const PlanPoint& point, const LocalSizes& s) {
  if (const std::optional<MeasuredPrice> measured = MeasuredPrice::Of(point)) {
    return measured->Embedding(s);
  }
  const ModuleCost cost = CostOfEmbedding(s, point.model);
  ModuleTime time;
  time.forward.memory = MemorySeconds(point, static_cast<double>(cost.forward.bytes_touched));
  time.forward.tensor = TensorSeconds(point, cost.forward.tensor);
  time.backward_input.memory = MemorySeconds(point, static_cast<double>(cost.backward_input.bytes_touched));
  time.backward_input.tensor = TensorSeconds(point, cost.backward_input.tensor);
  return time;
}

}  // namespace trireme
