#include "lowering/ring_plan.h"

namespace trireme {

RingPlan::RingPlan(const LocalSizes& s, bool backward) {
  const Shape keys{s.tokens, 2 * s.kv_heads * s.head_size};
  const auto place = [this](Place& at, DType dtype, const Shape& shape) {
    at = {.area = Area::kScratch, .dtype = dtype, .shape = shape, .offset = bytes};
    bytes += RoundUp(shape.count() * SizeOf(dtype), kPlanAlignment);
  };
  const auto sends = [this](std::int64_t payload, int times) {
    traffic.Add(CollectiveKind::kSend, payload, times);
    traffic.Add(CollectiveKind::kReceive, payload, times);
  };
  for (Place& one : kv) {
    place(one, s.dtype, keys);
  }
  sends(keys.count() * s.element(), s.context - 1);
  if (!backward) {
    place(sum, DType::kFloat32, {s.tokens, s.attention});
    place(part, s.dtype, {s.tokens, s.attention});
    place(part_statistics, DType::kFloat32, {s.batch, s.heads, s.sequence});
    return;
  }
  for (Place& one : grad_kv) {
    place(one, DType::kFloat32, keys);
  }
  place(grad_kv_part, s.dtype, keys);
  place(grad_sum, DType::kFloat32, {s.tokens, s.qkv});
  place(grad_part, s.dtype, {s.tokens, s.qkv});
  sends(keys.count() * SizeOf(DType::kFloat32), s.context);  // the last time they go home
}

}  // namespace trireme
