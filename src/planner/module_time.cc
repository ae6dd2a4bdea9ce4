#include "planner/module_time.h"

#include <array>

#include "base/shape.h"
#include "model/parameter_table.h"
#include "planner/collective_time.h"
#include "planner/matmul_time.h"

namespace trireme {
namespace {

// The [out, in] extents of a block's four products.
struct Products {
  explicit Products(const LocalSizes& s)
      : each{{{s.qkv, s.hidden}, {s.hidden, s.attention}, {s.ffn_in, s.hidden}, {s.hidden, s.ffn}}} {}
  std::array<std::pair<std::int64_t, std::int64_t>, 4> each;
};

MatmulPrice PriceOf(const PlanPoint& point) {
  return {.device = point.cluster.device,
          .dtype = point.dtype,
          .efficiency = point.stack.efficiencies.matmul,
          .memory_efficiency = point.stack.efficiencies.memory,
          .wave_weight = point.stack.time.wave_weight};
}

double MemorySeconds(const PlanPoint& point, double bytes) {
  return bytes / (point.cluster.device.memory_bandwidth * point.stack.efficiencies.memory);
}

double TensorSeconds(const PlanPoint& point, const Traffic& traffic) {
  const GroupPlacement group = PlaceTensor(point.cluster, point.layout);
  const LinkShares shares{.device = point.stack.efficiencies.tensor_link,
                          .node = point.stack.efficiencies.tensor_node_link};
  double seconds = 0;
  for (const CollectiveKind kind :
       {CollectiveKind::kAllReduce, CollectiveKind::kAllGather, CollectiveKind::kReduceScatter}) {
    const auto k = static_cast<std::size_t>(kind);
    seconds += CollectiveSeconds(kind, static_cast<double>(traffic.bytes[k]), static_cast<double>(traffic.calls[k]),
                                 group, point.cluster, shares);
  }
  return seconds;
}

// Fused attention skips what the mask hides and pays half a forward more in backward; unfused attention computes all
// pairs and moves every score through memory.
struct AttentionTime {
  double forward = 0;
  double backward = 0;
};

AttentionTime TimeOfAttention(const PlanPoint& point, const LocalSizes& s) {
  const Efficiencies& e = point.stack.efficiencies;
  const double pairs = static_cast<double>(s.tokens) * static_cast<double>(s.sequence);
  const double flops = 4 * pairs * static_cast<double>(s.attention);
  const double peak = point.cluster.device.Peak(point.dtype);
  if (point.flash) {
    // Kernels are made for heads of 128; narrower ones leave matrix units idle, wider ones spill.
    const double suits = s.head_size == 128 ? 1 : (s.head_size % 64 == 0 ? 0.85 : 0.75);
    const double forward = flops / 2 / (peak * e.flash * suits);
    return {.forward = forward, .backward = 2.5 * forward};
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

}  // namespace

WorkTime& WorkTime::operator+=(const WorkTime& other) {
  matmul += other.matmul;
  attention += other.attention;
  memory += other.memory;
  tensor += other.tensor;
  overhead += other.overhead;
  return *this;
}

WorkTime WorkTime::operator*(double times) const {
  return {matmul * times, attention * times, memory * times, tensor * times, overhead * times};
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

std::int64_t LocalVocabulary(const PlanPoint& point) {
  if (point.stack.ours) {
    return PaddedShare(point.model.vocabulary, point.layout.tensor);
  }
  const std::int64_t unit = static_cast<std::int64_t>(point.stack.time.vocabulary_multiple) * point.layout.tensor;
  return RoundUp(point.model.vocabulary, unit) / point.layout.tensor;
}

bool HeadMisaligned(const PlanPoint& point) {
  return !point.flash && point.model.head_size() % point.stack.time.head_multiple != 0;
}

ModuleTime TimeOfBlock(const PlanPoint& point, const LocalSizes& s) {
  const bool ours = point.stack.ours;
  const ModuleCost cost = CostOfBlock(s, point.model);
  const MatmulPrice price = PriceOf(point);
  const AttentionTime attention = TimeOfAttention(point, s);
  const double pass_overhead = point.stack.efficiencies.layer_seconds / 4;
  ModuleTime time;
  double last_product = 0;
  for (const auto& [out, in] : Products(s).each) {
    last_product = price.Seconds({s.tokens, out, in});
    time.forward.matmul += last_product;
    time.backward_input.matmul += price.Seconds({s.tokens, in, out});
    time.backward_weight.matmul += price.Seconds({out, in, s.tokens});
  }
  time.forward.attention = attention.forward;
  time.backward_input.attention = attention.backward;
  time.forward.overhead = time.backward_input.overhead = time.backward_weight.overhead = pass_overhead;
  time.forward.memory =
      MemorySeconds(point, ours ? static_cast<double>(cost.forward.bytes_touched) : PassBytes(point, s));

  WorkTime& again = time.recomputed;
  if (s.recompute_block) {
    again = time.forward;
    if (ours || !point.stack.time.recompute_whole) {
      again.matmul -= last_product;
    }
  } else if (s.recompute_attention) {
    again.attention = attention.forward;
  }
  if (ours) {
    // cost counts the second forward's bytes and collectives within the input part already.
    time.backward_input.memory = MemorySeconds(point, static_cast<double>(cost.backward_input.bytes_touched));
    time.backward_weight.memory = MemorySeconds(point, static_cast<double>(cost.backward_weight.bytes_touched));
    again.memory = 0;
  } else {
    time.backward_input.memory = 2 * time.forward.memory;
  }
  time.forward.tensor = TensorSeconds(point, cost.forward.tensor);
  time.backward_input.tensor = TensorSeconds(point, cost.backward_input.tensor);
  time.backward_weight.tensor = TensorSeconds(point, cost.backward_weight.tensor);
  if (s.recompute_block && !ours && point.stack.time.recompute_whole) {
    // Their second forward also reduces the last product, whose output nobody needs.
    time.backward_input.tensor += time.forward.tensor / 2;
  }
  time.backward_input += again;
  if (s.recompute_block) {
    time.backward_input += time.backward_weight;
    time.backward_weight = {};
  }
  return time;
}

ModuleTime TimeOfHead(const PlanPoint& point, const LocalSizes& s) {
  const MatmulPrice price = PriceOf(point);
  const std::int64_t vocabulary = LocalVocabulary(point);
  const double forward = price.Seconds({s.tokens, vocabulary, s.hidden});
  const double backward =
      price.Seconds({s.tokens, s.hidden, vocabulary}) + price.Seconds({vocabulary, s.hidden, s.tokens});
  ModuleTime time;
  if (point.stack.ours) {
    // The trainer's head computes gradients as soon as a chunk of logits exists.
    const ModuleCost cost = CostOfHead(s, HeadChunk(s, 0));
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
  const ModuleCost cost = CostOfEmbedding(s, point.model);
  ModuleTime time;
  time.forward.memory = MemorySeconds(point, static_cast<double>(cost.forward.bytes_touched));
  time.forward.tensor = TensorSeconds(point, cost.forward.tensor);
  time.backward_input.memory = MemorySeconds(point, static_cast<double>(cost.backward_input.bytes_touched));
  time.backward_input.tensor = TensorSeconds(point, cost.backward_input.tensor);
  return time;
}

}  // namespace trireme
