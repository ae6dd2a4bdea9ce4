// Matrix products and attention of the device, against their FLOP counts: `kernels_benchmark` prints FLOP/s. The device
// is TRIREME_BENCHMARK_DEVICE (cpu by default). ContextAttention is that of Llama 3.2 1B on the first of some context
// ranks, FeatureAttention that of Mistral 7B with what families add to it; both over sequences of
// TRIREME_BENCHMARK_TOKENS (512 by default).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
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

// What attention has besides the causal mask.
struct AttentionFeature {
  const char* name;
  std::int64_t window_part = 0;  // a window of the sequence over this; 0: none
  float cap = 0;
  bool alibi = false;
  std::int64_t documents = 0;
};

constexpr AttentionFeature kFeatures[] = {
    {"causal"},
    {"window", 4},
    {"cap", 0, 50},
    {"alibi", 0, 0, true},
    {"4 documents", 0, 0, false, 4},
    {"window, cap", 4, 50},
    {"32 documents", 0, 0, false, 32},
    {"128 documents", 0, 0, false, 128},
    {"32 documents, window, cap", 4, 50, false, 32},
    // cuDNN does not take slopes with a cap: what the plain kernels take for the features above.
    {"plain: cap", 0, 50, true},
    {"plain: 4 documents", 0, 50, true, 4},
    {"plain: 32 documents", 0, 50, true, 32},
};

// Equal documents.
Tensor DocumentStarts(Bench& bench, std::int64_t tokens, std::int64_t documents) {
  std::vector<std::int32_t> starts(static_cast<std::size_t>(tokens));
  for (std::int64_t i = 0; i < tokens; ++i) {
    starts[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i * documents / tokens * (tokens / documents));
  }
  const Tensor tensor = bench.Make(DType::kInt32, {1, tokens});
  bench.device().CopyFromHost(tensor.data, starts.data(), tensor.bytes());
  return tensor;
}

// Arguments: a feature of kFeatures; 0 forward, 1 backward; the head size, 128 for the heads of Mistral 7B, 256 for
// those of Gemma 2 9B. FLOPs are those of the pairs within the window.
void FeatureAttention(benchmark::State& state) {
  const AttentionFeature& feature = kFeatures[state.range(0)];
  const bool backward = state.range(1) == 1;
  const std::int64_t head_size = state.range(2);
  const std::int64_t heads = head_size == 128 ? 32 : 16;
  constexpr std::int64_t kKeyHeads = 8;
  const std::int64_t tokens = BenchmarkTokens();
  state.SetLabel(feature.name);
  Bench bench;
  const DType dtype = DType::kBFloat16;
  AttentionArgs args{.batch = 1,
                     .sequence = tokens,
                     .heads = heads,
                     .kv_heads = kKeyHeads,
                     .head_size = head_size,
                     .scale = 0.088F,
                     .window = feature.window_part > 0 ? tokens / feature.window_part : 0,
                     .cap = feature.cap,
                     .qkv = bench.Make(dtype, {tokens, (heads + 2 * kKeyHeads) * head_size}),
                     .out = bench.Make(dtype, {tokens, heads * head_size}),
                     .statistics = bench.Make(DType::kFloat32, {1, heads, tokens}),
                     .grad_out = bench.Make(dtype, {tokens, heads * head_size}),
                     .grad_qkv = bench.Make(dtype, {tokens, (heads + 2 * kKeyHeads) * head_size})};
  if (feature.alibi) {
    args.slopes = bench.Make(DType::kFloat32, {heads});
  }
  if (feature.documents > 0) {
    args.document_starts = DocumentStarts(bench, tokens, feature.documents);
  }
  TimeAttention(state, bench.device(), args, backward);
}
BENCHMARK(FeatureAttention)
    ->ArgsProduct({benchmark::CreateDenseRange(0, std::size(kFeatures) - 1, 1), {0, 1}, {128}})
    ->ArgsProduct({{0, 2, 5, 9}, {0, 1}, {256}})
    ->UseRealTime();

}  // namespace
}  // namespace trireme
