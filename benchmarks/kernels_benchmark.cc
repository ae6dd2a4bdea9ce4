// Matrix products and attention of the device, against their FLOP counts: `kernels_benchmark` prints FLOP/s. The device
// is TRIREME_BENCHMARK_DEVICE (cpu by default).
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "device/device.h"

namespace trireme {
namespace {

std::unique_ptr<Device> MakeBenchmarkDevice() {
  const char* kind = std::getenv("TRIREME_BENCHMARK_DEVICE");
  return MakeDevice({.kind = kind == nullptr ? "cpu" : kind});
}

// Tensors of a device, freed at the end.
class Bench {
 public:
  Bench() : device_(MakeBenchmarkDevice()) {}
  ~Bench() {
    for (void* memory : memory_) {
      device_->Free(memory);
    }
  }
  Tensor Make(DType dtype, const Shape& shape) {
    Tensor tensor{device_->Allocate(shape.count() * SizeOf(dtype)), dtype, shape};
    memory_.push_back(tensor.data);
    device_->ops().Fill(tensor, 0);
    return tensor;
  }
  Device& device() { return *device_; }

 private:
  std::unique_ptr<Device> device_;
  std::vector<void*> memory_;
};

DType DTypeOf(std::int64_t bits) { return bits == 16 ? DType::kBFloat16 : DType::kFloat32; }

void Matmul(benchmark::State& state) {
  Bench bench;
  const std::int64_t size = state.range(0) * 128;
  const DType dtype = DTypeOf(state.range(1));
  const MatmulArgs args{.a = bench.Make(dtype, {size, size}),
                        .b = bench.Make(dtype, {size, size}),
                        .c = bench.Make(dtype, {size, size}),
                        .transpose_b = true};
  for (auto _ : state) {
    bench.device().ops().Matmul(args);
    bench.device().Synchronize();
  }
  state.counters["FLOP/s"] =
      benchmark::Counter(2.0 * static_cast<double>(size * size * size), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(Matmul)->ArgsProduct({{1, 4, 8}, {16, 32}})->UseRealTime();

void Attention(benchmark::State& state) {
  Bench bench;
  const std::int64_t heads = 4;
  const std::int64_t head_size = 64;
  const std::int64_t sequence = state.range(0) * 128;
  const DType dtype = DTypeOf(state.range(1));
  const bool backward = state.range(2) == 1;
  AttentionArgs args{.batch = 1,
                     .sequence = sequence,
                     .heads = heads,
                     .kv_heads = heads,
                     .head_size = head_size,
                     .scale = 0.125F,
                     .qkv = bench.Make(dtype, {sequence, 3 * heads * head_size}),
                     .out = bench.Make(dtype, {sequence, heads * head_size}),
                     .statistics = bench.Make(DType::kFloat32, {1, heads, sequence})};
  args.grad_out = bench.Make(dtype, {sequence, heads * head_size});
  args.grad_qkv = bench.Make(dtype, {sequence, 3 * heads * head_size});
  bench.device().ops().AttentionForward(args);
  for (auto _ : state) {
    backward ? bench.device().ops().AttentionBackward(args) : bench.device().ops().AttentionForward(args);
    bench.device().Synchronize();
  }
  const std::int64_t flops = backward ? AttentionBackwardFlops(1, sequence, heads, head_size)
                                      : AttentionForwardFlops(1, sequence, heads, head_size);
  state.counters["FLOP/s"] =
      benchmark::Counter(static_cast<double>(flops), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(Attention)->ArgsProduct({{1, 4, 8}, {16, 32}, {0, 1}})->UseRealTime();

}  // namespace
}  // namespace trireme
