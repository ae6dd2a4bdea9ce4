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

void CudaOps::DoRotary(const RotaryArgs& args) {
  const std::int64_t half = args.pairs();
  const std::int64_t row_stride = (args.heads + 2 * args.kv_heads) * args.head_size;
  if (args.qkv.count() == 0 || half == 0) {
    return;
  }
  const std::vector<double> frequencies = RotaryFrequencies(args);
  std::vector<std::int64_t> key{args.sequence, std::bit_cast<std::int32_t>(args.magnitude)};
  for (const double frequency : frequencies) {
    key.push_back(std::bit_cast<std::int64_t>(frequency));
  }
  const void* found = rotary_tables_.Find(key);
  if (found == nullptr) {
    const std::vector<float> table = RotaryTableOf(args.sequence, frequencies, args.magnitude);
    found = rotary_tables_.Insert(key, table.data(), table.size() * sizeof(float));
  }
  const auto* cosines = static_cast<const float*>(found);
  const std::int64_t rotated_heads = args.heads + args.kv_heads;
  const std::int64_t rows = args.qkv.count() / row_stride;
  DispatchFloat(args.qkv.dtype, "Rotary", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const RotaryBody<T> body{args.qkv.as<T>(),
                             cosines,
                             cosines + args.sequence * half,
                             args.positions.as<std::int32_t>(),
                             args.sequence,
                             rotated_heads,
                             half,
                             args.head_size,
                             row_stride,
                             args.inverse ? -1.0F : 1.0F};
    ForEach(context_, rows * rotated_heads * half,
            half % 8 == 0 && args.head_size % 8 == 0 && Aligned16({args.qkv.data}), body);
  });
}

}  // namespace trireme
