// Matrix products and attention of the device, against their FLOP counts: `kernels_benchmark` prints FLOP/s. The device
// is TRIREME_BENCHMARK_DEVICE (cpu by default). ContextAttention is that of Llama 3.2 1B on the first of some context
// ranks, FeatureAttention that of Mistral 7B with what families add to it; both over sequences of
// TRIREME_BENCHMARK_TOKENS (512 by default).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "device/device.h"
#include "topology/context_share.h"

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
  // Random numbers, as in training: a GPU is faster on zeros, which take less power.
  Tensor MakeNormal(DType dtype, const Shape& shape) {
    const Tensor tensor = Make(dtype, shape);
    constexpr std::int64_t kPiece = std::int64_t{1} << 22;
    const std::int64_t count = shape.count();
    const Tensor piece = Make(DType::kFloat32, {1, std::min(kPiece, count)});
    for (std::int64_t first = 0; first < count; first += kPiece) {
      const Tensor part = piece.Range(0, std::min(kPiece, count - first));
      device_->ops().DrawNormal(part.Reshaped({1, part.count()}),
                                {.key = 1, .first_element = first, .stride = part.count()});
      device_->ops().Copy(tensor.Range(first, part.count()), part);
    }
    return tensor;
  }
  Device& device() { return *device_; }

 private:
  std::unique_ptr<Device> device_;
  std::vector<void*> memory_;
};

std::int64_t BenchmarkTokens() {
  const char* const wanted = std::getenv("TRIREME_BENCHMARK_TOKENS");
  return wanted == nullptr ? 512 : std::atoll(wanted);
}

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
  bench.device().Synchronize();
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

// Passes of one kind after a first of each, which make plans and are waited for. FLOP/s are those that the device
// counts.
void TimeAttention(benchmark::State& state, Device& device, const AttentionArgs& args, bool backward) {
  Ops& ops = device.ops();
  ops.AttentionForward(args);
  ops.AttentionBackward(args);
  device.Synchronize();
  const std::int64_t before = ops.flops().attention;
  for (auto _ : state) {
    backward ? ops.AttentionBackward(args) : ops.AttentionForward(args);
    device.Synchronize();
  }
  state.counters["FLOP/s"] =
      benchmark::Counter(static_cast<double>(ops.flops().attention - before), benchmark::Counter::kIsRate);
}

// Arguments: context ranks; 0 keys of all at once, 1 the rank's own alone; 0 forward, 1 backward. With one rank the
// sequence is whole.
void ContextAttention(benchmark::State& state) {
  constexpr std::int64_t kHeads = 32;
  constexpr std::int64_t kKeyHeads = 8;
  constexpr std::int64_t kHeadSize = 64;
  const std::int64_t tokens = BenchmarkTokens();
  const ContextShare share{.sequence = tokens, .degree = static_cast<int>(state.range(0)), .rank = 0};
  const bool own = state.range(1) == 1;
  const bool backward = state.range(2) == 1;
  Bench bench;
  const std::vector<std::int64_t> queries = share.Chunks();
  std::vector<KeyChunk> keys;
  for (int chunk = 0; chunk < share.chunks(); ++chunk) {
    const ChunkPlace place = PlaceOfChunk(share, chunk);
    if (!own || place.rank == 0) {
      keys.push_back({.position = chunk * share.chunk(), .row = place.rank * share.tokens() + place.first});
    }
  }
  const DType dtype = DType::kBFloat16;
  const std::int64_t rows = share.tokens();
  AttentionArgs args{.batch = 1,
                     .sequence = rows,
                     .heads = kHeads,
                     .kv_heads = kKeyHeads,
                     .head_size = kHeadSize,
                     .scale = 0.125F,
                     .qkv = bench.MakeNormal(dtype, {rows, (kHeads + 2 * kKeyHeads) * kHeadSize}),
                     .out = bench.Make(dtype, {rows, kHeads * kHeadSize}),
                     .statistics = bench.Make(DType::kFloat32, {1, kHeads, rows}),
                     .grad_out = bench.MakeNormal(dtype, {rows, kHeads * kHeadSize}),
                     .grad_qkv = bench.Make(dtype, {rows, (kHeads + 2 * kKeyHeads) * kHeadSize})};
  if (share.degree > 1) {
    args.query_chunks = queries;
    args.key_chunks = keys;
    args.kv = bench.MakeNormal(dtype, {own ? rows : tokens, 2 * kKeyHeads * kHeadSize});
    args.grad_kv = bench.Make(dtype, args.kv.shape);
  }
  TimeAttention(state, bench.device(), args, backward);
}
BENCHMARK(ContextAttention)->ArgsProduct({{1, 8}, {0, 1}, {0, 1}})->UseRealTime();

// Arguments: 0 plain causal attention, 1 a window of a quarter of the sequence, 2 capped scores, 3 ALiBi, 4 four
// documents, 5 window and cap; 0 forward, 1 backward. FLOPs are those of the pairs within the window.
void FeatureAttention(benchmark::State& state) {
  constexpr std::int64_t kHeads = 32;
  constexpr std::int64_t kKeyHeads = 8;
  constexpr std::int64_t kHeadSize = 128;
  const std::int64_t tokens = BenchmarkTokens();
  const std::int64_t feature = state.range(0);
  const bool backward = state.range(1) == 1;
  Bench bench;
  const DType dtype = DType::kBFloat16;
  AttentionArgs args{.batch = 1,
                     .sequence = tokens,
                     .heads = kHeads,
                     .kv_heads = kKeyHeads,
                     .head_size = kHeadSize,
                     .scale = 0.088F,
                     .window = feature == 1 || feature == 5 ? tokens / 4 : 0,
                     .cap = feature == 2 || feature == 5 ? 50.0F : 0.0F,
                     .qkv = bench.Make(dtype, {tokens, (kHeads + 2 * kKeyHeads) * kHeadSize}),
                     .out = bench.Make(dtype, {tokens, kHeads * kHeadSize}),
                     .statistics = bench.Make(DType::kFloat32, {1, kHeads, tokens}),
                     .grad_out = bench.Make(dtype, {tokens, kHeads * kHeadSize}),
                     .grad_qkv = bench.Make(dtype, {tokens, (kHeads + 2 * kKeyHeads) * kHeadSize})};
  if (feature == 3) {
    args.slopes = bench.Make(DType::kFloat32, {kHeads});
  } else if (feature == 4) {
    std::vector<std::int32_t> starts(static_cast<std::size_t>(tokens));
    for (std::int64_t i = 0; i < tokens; ++i) {
      starts[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i * 4 / tokens * (tokens / 4));
    }
    args.document_starts = bench.Make(DType::kInt32, {1, tokens});
    bench.device().CopyFromHost(args.document_starts.data, starts.data(), args.document_starts.bytes());
  }
  TimeAttention(state, bench.device(), args, backward);
}
BENCHMARK(FeatureAttention)->ArgsProduct({{0, 1, 2, 3, 4, 5}, {0, 1}})->UseRealTime();

}  // namespace
}  // namespace trireme
