#include <bit>
#include <vector>

#include "device/cuda/cuda_ops.h"
#include "device/cuda/kernels.cuh"
#include "device/rotary_table.h"

namespace trireme {
namespace {

// Indices run over pairs: [rows, H + Hkv, half].
template <typename T>
struct RotaryBody {
  T* qkv;
  const float* cosines;  // [sequence, half]
  const float* sines;
  const std::int32_t* positions;
  std::int64_t sequence;
  std::int64_t rotated_heads;
  std::int64_t half;
  std::int64_t head_size;
  std::int64_t row_stride;
  float direction;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
    const std::int64_t pair = first % half;
    const std::int64_t head = first / half % rotated_heads;
    const std::int64_t row = first / (half * rotated_heads);
    const std::int64_t at = row * row_stride + head * head_size + pair;
    const std::int64_t position = (positions == nullptr ? row : positions[row]) % sequence;
    const std::int64_t angle = position * half + pair;
    float low[kCount];
    float high[kCount];
    float cosine[kCount];
    float sine[kCount];
    Load(low, qkv + at);
    Load(high, qkv + at + half);
    Load(cosine, cosines + angle);
    Load(sine, sines + angle);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float turned = low[i] * cosine[i] - direction * high[i] * sine[i];
      high[i] = high[i] * cosine[i] + direction * low[i] * sine[i];
      low[i] = turned;
    }
    Store(qkv + at, low);
    Store(qkv + at + half, high);
  }
};

}  // namespace

void CudaOps::Do(const Rotary<Tensor>& op) {
  const std::int64_t half = op.pairs();
  const std::int64_t row_stride = (op.heads + 2 * op.kv_heads) * op.head_size;
  if (half == 0) {
    return;
  }
  const std::vector<double> frequencies = RotaryFrequencies(op);
  std::vector<std::int64_t> key{op.sequence, std::bit_cast<std::int32_t>(op.magnitude)};
  for (const double frequency : frequencies) {
    key.push_back(std::bit_cast<std::int64_t>(frequency));
  }
  const void* found = rotary_tables_.Find(key);
  if (found == nullptr) {
    const std::vector<float> table = RotaryTableOf(op.sequence, frequencies, op.magnitude);
    found = rotary_tables_.Insert(key, table.data(), table.size() * sizeof(float));
  }
  const auto* cosines = static_cast<const float*>(found);
  const std::int64_t rotated_heads = op.heads + op.kv_heads;
  const std::int64_t rows = op.qkv.count() / row_stride;
  DispatchFloat(op.qkv.dtype, "Rotary", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const RotaryBody<T> body{op.qkv.as<T>(),
                             cosines,
                             cosines + op.sequence * half,
                             op.positions.as<std::int32_t>(),
                             op.sequence,
                             rotated_heads,
                             half,
                             op.head_size,
                             row_stride,
                             op.inverse ? -1.0F : 1.0F};
    ForEach(context_, rows * rotated_heads * half, half % 8 == 0 && op.head_size % 8 == 0 && Aligned16({op.qkv.data}),
            body);
  });
}

}  // namespace trireme
