#include "planner/pricing/module_time.h"

#include "planner/pricing/price_model.h"

namespace trireme {

WorkTime& WorkTime::operator+=(const WorkTime& other) {
  matmul += other.matmul;
  attention += other.attention;
  memory += other.memory;
  tensor += other.tensor;
  context += other.context;
  experts += other.experts;
  overhead += other.overhead;
  return *this;
}

WorkTime WorkTime::operator*(double times) const {
  return {matmul * times,  attention * times, memory * times,  tensor * times,
          context * times, experts * times,   overhead * times};
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

MatmulPrice ProductPrice(const PlanPoint& point, ProductFormat format) {
  return {.device = point.cluster.device,
          .dtype = point.dtype(),
          .format = format,
          .efficiency = point.stack.efficiencies.matmul,
          .memory_efficiency = point.stack.efficiencies.memory,
          .wave_weight = point.stack.time.wave_weight};
}

double FusedAttentionRate(const PlanPoint& point, std::int64_t head_size) {
  // Kernels are made for heads of 128; narrower ones leave matrix units idle, wider ones spill.
  const double suits = head_size == 128 ? 1 : (head_size % 64 == 0 ? 0.85 : 0.75);
  const double generation = point.stack.time.flash_old ? point.cluster.device.old_matrix_share : 1;
  return point.cluster.device.Peak(point.dtype()) * point.stack.efficiencies.flash * point.stack.time.flash_share *
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
  return !point.flash() && point.config.model.head_size() % point.stack.time.head_multiple != 0;
}

ModuleTime TimeOfBlock(const PlanPoint& point, const LocalSizes& s) {
  return TimeOfBlock(point, s, PlanBlock(point.config.model, s));
}

// The average of a model's blocks by their attention. Windows change what it costs, not the program.
ModuleTime TimeOfKind(const PlanPoint& point, const LocalSizes& s, const ModuleProgram& program) {
  const ModelConfig& model = point.config.model;
  if (model.layer_pattern.empty() && (model.window == 0 || model.window_period == 0)) {
    return point.prices.Block(point, s, program);
  }
  ModuleTime time;
  for (const auto& [kind, layers] : AttentionKinds(model)) {
    const LocalSizes sizes = s.WithAttention(kind);
    const double share = static_cast<double>(layers) / static_cast<double>(model.layers);
    time += (kind.rotary == s.rotary ? point.prices.Block(point, sizes, program)
                                     : point.prices.Block(point, sizes, PlanBlock(model, sizes))) *
            share;
  }
  return time;
}

ModuleTime TimeOfBlock(const PlanPoint& point, const LocalSizes& s, const ModuleProgram& program) {
  const ModelConfig& model = point.config.model;
  const std::int64_t sparse = model.SparseLayers();
  if (sparse == 0 || sparse == model.layers) {
    return TimeOfKind(point, s, program);
  }
  // The average of a model's blocks, of which some have experts; sizes are those of these.
  const double share = static_cast<double>(sparse) / static_cast<double>(model.layers);
  const LocalSizes dense = s.OfKind(model, false);
  ModuleTime time = TimeOfKind(point, s, program) * share;
  time += TimeOfKind(point, dense, PlanBlock(model, dense)) * (1 - share);
  return time;
}

}  // namespace trireme
