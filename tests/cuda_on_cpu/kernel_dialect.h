// CUDA's words for a plain C++ compiler; the kernels' sources are compiled with this header included before their first
// line. A shared array is a static of the host thread that runs the block, so that it lies in the program's
// thread-local segment; its accesses, and those to GPU memory, are seen by the hooks of access_hooks.cc. Numbers of
// threads that __launch_bounds__ promises are kept as so many NOPs before the function, where the executor finds them.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <tuple>
#include <utility>

#undef __shared__
#undef __launch_bounds__
#undef __grid_constant__
#define __shared__ alignas(64) static thread_local
#define __grid_constant__
#define TRIREME_FIRST_ARGUMENT(first, ...) (first)
#if defined(__GNUC__) && !defined(__clang__)
#define __launch_bounds__(...) \
  __attribute__((              \
      patchable_function_entry(TRIREME_FIRST_ARGUMENT(__VA_ARGS__, 0), TRIREME_FIRST_ARGUMENT(__VA_ARGS__, 0))))
#else
#define __launch_bounds__(...)
#endif

namespace trireme::cuda_on_cpu {

enum class Coordinate { kThread, kBlock, kBlockDim, kGridDim };
// A coordinate of the thread that runs; constant for it.
__attribute__((const)) unsigned CoordinateOf(Coordinate kind, int axis);

template <Coordinate kKind>
struct Coordinates {
  template <int kAxis>
  struct Axis {
    operator unsigned() const { return CoordinateOf(kKind, kAxis); }  // NOLINT(google-explicit-constructor)
  };
  Axis<0> x;
  Axis<1> y;
  Axis<2> z;
};

enum class WarpOperation { kSync, kShuffle, kShuffleXor, kReduceMax };
// What the calling lane gets once all lanes of `mask` have come to the same operation.
std::uint64_t Exchange(WarpOperation operation, unsigned mask, std::uint64_t value, int operand);
void BlockBarrier();
// Atomic to the checks of accesses; return the value before.
float AtomicAdd(float* address, float value);
unsigned AtomicMax(unsigned* address, unsigned value);
int AtomicMin(int* address, int value);
void* DynamicShared();

// Calls a kernel with the parameters of a tuple.
using Thunk = void (*)(const void* kernel, const void* parameters);
struct Parameters {
  std::shared_ptr<const void> tuple;
  std::size_t bytes = 0;        // of all parameters
  std::size_t tuple_bytes = 0;  // with padding
};
using MakeParameters = Parameters (*)(void** values);
cudaError_t Enqueue(const cudaLaunchConfig_t& config, const void* kernel, Thunk thunk, const Parameters& parameters);
// Remembers how a kernel is called, for graphs, which are given addresses of its parameters alone.
void Remember(const void* kernel, Thunk thunk, MakeParameters make);
void SortPairs(const std::uint32_t* keys, std::uint32_t* sorted_keys, const std::int32_t* values,
               std::int32_t* sorted_values, int count, int bits, cudaStream_t stream);

template <typename... Types>
void Call(const void* kernel, const void* parameters) {
  const auto function = reinterpret_cast<void (*)(Types...)>(const_cast<void*>(kernel));
  std::apply(function, *static_cast<const std::tuple<Types...>*>(parameters));
}

template <typename... Types, typename... Arguments>
cudaError_t LaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Types...), Arguments&&... arguments) {
  using Tuple = std::tuple<Types...>;
  return Enqueue(
      *config, reinterpret_cast<const void*>(kernel), Call<Types...>,
      {std::make_shared<const Tuple>(std::forward<Arguments>(arguments)...), (sizeof(Types) + ... + 0), sizeof(Tuple)});
}

template <typename... Types, std::size_t... kIndices>
Parameters MakeTuple(void** values, std::index_sequence<kIndices...> /*indices*/) {
  using Tuple = std::tuple<Types...>;
  return {std::make_shared<const Tuple>(*static_cast<const Types*>(values[kIndices])...), (sizeof(Types) + ... + 0),
          sizeof(Tuple)};
}

template <typename... Types>
void* Remembered(void (*kernel)(Types...)) {
  auto* const address = reinterpret_cast<void*>(kernel);
  Remember(address, Call<Types...>,
           [](void** values) { return MakeTuple<Types...>(values, std::index_sequence_for<Types...>{}); });
  return address;
}

template <typename To, typename From>
To BitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

// A value as the bits that a warp exchanges.
template <typename T>
std::uint64_t Bits(T value) {
  std::uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(value));
  return bits;
}

template <typename T>
T FromBits(std::uint64_t bits) {
  T value{};
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace trireme::cuda_on_cpu

#define cudaLaunchKernelEx ::trireme::cuda_on_cpu::LaunchKernelEx

inline constexpr trireme::cuda_on_cpu::Coordinates<trireme::cuda_on_cpu::Coordinate::kThread> threadIdx{};
inline constexpr trireme::cuda_on_cpu::Coordinates<trireme::cuda_on_cpu::Coordinate::kBlock> blockIdx{};
inline constexpr trireme::cuda_on_cpu::Coordinates<trireme::cuda_on_cpu::Coordinate::kBlockDim> blockDim{};
inline constexpr trireme::cuda_on_cpu::Coordinates<trireme::cuda_on_cpu::Coordinate::kGridDim> gridDim{};

__attribute__((always_inline)) inline void __syncthreads() { trireme::cuda_on_cpu::BlockBarrier(); }
__attribute__((always_inline)) inline void __syncwarp(unsigned mask = 0xffffffffU) {
  trireme::cuda_on_cpu::Exchange(trireme::cuda_on_cpu::WarpOperation::kSync, mask, 0, 0);
}
template <typename T>
__attribute__((always_inline)) inline T __shfl_sync(unsigned mask, T value, int lane) {
  using namespace trireme::cuda_on_cpu;
  return FromBits<T>(Exchange(WarpOperation::kShuffle, mask, Bits(value), lane));
}
template <typename T>
__attribute__((always_inline)) inline T __shfl_xor_sync(unsigned mask, T value, int lanes) {
  using namespace trireme::cuda_on_cpu;
  return FromBits<T>(Exchange(WarpOperation::kShuffleXor, mask, Bits(value), lanes));
}
__attribute__((always_inline)) inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
  using namespace trireme::cuda_on_cpu;
  return static_cast<unsigned>(Exchange(WarpOperation::kReduceMax, mask, value, 0));
}
__attribute__((always_inline)) inline float atomicAdd(float* address, float value) {
  return trireme::cuda_on_cpu::AtomicAdd(address, value);
}
__attribute__((always_inline)) inline unsigned atomicMax(unsigned* address, unsigned value) {
  return trireme::cuda_on_cpu::AtomicMax(address, value);
}
__attribute__((always_inline)) inline int atomicMin(int* address, int value) {
  return trireme::cuda_on_cpu::AtomicMin(address, value);
}

inline float __uint_as_float(unsigned bits) { return trireme::cuda_on_cpu::BitCast<float>(bits); }
inline float __int_as_float(int bits) { return trireme::cuda_on_cpu::BitCast<float>(bits); }
inline unsigned __float_as_uint(float value) { return trireme::cuda_on_cpu::BitCast<unsigned>(value); }
inline int __float_as_int(float value) { return trireme::cuda_on_cpu::BitCast<int>(value); }
inline float __expf(float value) { return std::exp(value); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }

inline int min(int a, int b) { return a < b ? a : b; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline long min(long a, long b) { return a < b ? a : b; }
inline int max(int a, int b) { return a < b ? b : a; }
inline unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
inline long max(long a, long b) { return a < b ? b : a; }
