#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/decode_attention.cc"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cstring>

#include "device/cpu/cpu_ops-inl.h"
#include "device/cpu/dispatch.h"
#include "device/cpu/narrow.h"
#include "device/cpu/parallel.h"
#include "device/cpu/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {
namespace {

// One (sequence, key head) of a call: a thread's unit of work, since it alone touches that slice of the caches.
template <typename T>
struct Slice {
  const DecodeAttentionArgs& args;
  std::int64_t batch;
  std::int64_t kv_head;

  std::int64_t group() const { return args.heads / args.kv_heads; }
  std::int64_t start() const { return args.starts.as<std::int32_t>()[batch]; }
  std::int64_t cache_stride() const { return args.kv_heads * args.head_size; }
  const T* Packed(std::int64_t query, std::int64_t head) const {
    const std::int64_t width = (args.heads + 2 * args.kv_heads) * args.head_size;
    return args.qkv.as<T>() + (batch * args.queries + query) * width + head * args.head_size;
  }
  T* Cached(const Tensor& cache, std::int64_t position) const {
    return cache.as<T>() + (batch * args.capacity + position) * cache_stride() + kv_head * args.head_size;
  }
  T* Out(std::int64_t query, std::int64_t head) const {
    return args.out.as<T>() + ((batch * args.queries + query) * args.heads + head) * args.head_size;
  }
};

template <typename T>
void Append(const Slice<T>& slice) {
  const auto bytes = static_cast<std::size_t>(slice.args.head_size) * sizeof(T);
  const std::int64_t stored = std::min(slice.args.queries, slice.args.capacity - slice.start());
  for (std::int64_t i = 0; i < stored; ++i) {
    const std::int64_t key_head = slice.args.heads + slice.kv_head;
    std::memcpy(slice.Cached(slice.args.keys, slice.start() + i), slice.Packed(i, key_head), bytes);
    std::memcpy(slice.Cached(slice.args.values, slice.start() + i), slice.Packed(i, key_head + slice.args.kv_heads),
                bytes);
  }
}

template <typename T>
float Dot(const T* a, const T* b, std::int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) {
    sum += static_cast<float>(a[i]) * static_cast<float>(b[i]);
  }
  return sum;
}

// Attention of one query head at `position`; `memory` holds position + 1 weights and a head of sums.
template <typename T>
void Attend(const Slice<T>& slice, std::int64_t query, std::int64_t head, std::int64_t position, float* memory) {
  const DecodeAttentionArgs& args = slice.args;
  float* sums = memory;
  float* weights = memory + args.head_size;
  const float slope = args.slopes.given() ? args.slopes.as<float>()[head] : 0.0F;
  const T* own = slice.Packed(query, head);
  const std::int64_t first = args.window > 0 ? std::max<std::int64_t>(position + 1 - args.window, 0) : 0;
  float maximum = 0;
  for (std::int64_t key = first; key <= position; ++key) {
    weights[key] = args.scale * Dot(own, slice.Cached(args.keys, key), args.head_size) +
                   slope * static_cast<float>(key - position);
    weights[key] = args.cap > 0 ? args.cap * VectorTanh(weights[key] / args.cap) : weights[key];
    maximum = key == first ? weights[key] : std::max(maximum, weights[key]);
  }
  float total = 0;
#pragma omp simd reduction(+ : total)
  for (std::int64_t key = first; key <= position; ++key) {
    weights[key] = VectorExp(weights[key] - maximum);
    total += weights[key];
  }
  std::fill(sums, sums + args.head_size, 0.0F);
  for (std::int64_t key = first; key <= position; ++key) {
    const T* value = slice.Cached(args.values, key);
    const float weight = weights[key];
#pragma omp simd
    for (std::int64_t d = 0; d < args.head_size; ++d) {
      sums[d] += weight * static_cast<float>(value[d]);
    }
  }
  T* out = slice.Out(query, head);
#pragma omp simd
  for (std::int64_t d = 0; d < args.head_size; ++d) {
    out[d] = Narrow<T>(sums[d] / total);
  }
}

template <typename T>
void RunSlice(const Slice<T>& slice, float* memory) {
  Append(slice);
  for (std::int64_t query = 0; query < slice.args.queries; ++query) {
    const std::int64_t position = slice.start() + query;
    for (std::int64_t i = 0; i < slice.group(); ++i) {
      const std::int64_t head = slice.kv_head * slice.group() + i;
      if (position < slice.args.capacity) {
        Attend(slice, query, head, position, memory);
      } else {
        std::memset(static_cast<void*>(slice.Out(query, head)), 0,
                    static_cast<std::size_t>(slice.args.head_size) * sizeof(T));
      }
    }
  }
}

}  // namespace

void CpuOps::DoDecodeAttention(const DecodeAttentionArgs& args) {
  const std::int64_t slices = args.batch * args.kv_heads;
  scratch_.Reserve(PartCount(threads_, slices, 1), args.head_size + args.capacity);
  DispatchWorkingType(args.qkv.dtype, [&](auto type) {
    ParallelRanges(threads_, slices, 1, [&](int part, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        RunSlice(Slice<decltype(type)>{args, i / args.kv_heads, i % args.kv_heads}, scratch_.of(part));
      }
    });
  });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
