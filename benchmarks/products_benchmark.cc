// Products of the CPU's engines in the shapes of a training step: every engine, instruction level and type that the
// machine has, with one thread, two and as many as the machine runs at once. `products_benchmark` prints FLOP/s.
// Tile/… is a level's inner loop on operands in the first-level cache, in every thread its own: what a product could
// reach without packing, memory or an epilogue.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "base/shape.h"
#include "device/cpu/product/engine_choice.h"
#include "device/cpu/product/kernel_table.h"

namespace trireme {
namespace {

// Aligned memory full of ones of any type.
class Memory {
 public:
  explicit Memory(std::int64_t bytes) : data_(std::aligned_alloc(64, static_cast<std::size_t>(RoundUp(bytes, 64)))) {
    std::fill_n(static_cast<std::uint16_t*>(data_.get()), bytes / 2, std::uint16_t{0x3f80});
  }
  void* data() const { return data_.get(); }

 private:
  struct Release {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Release> data_;
};

struct ProductShape {
  const char* name;
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  bool transpose_a = false;
  bool transpose_b = false;
  Epilogue epilogue = Epilogue::kNone;
};

// The 30M model: 2048 tokens, hidden 512, feed-forward 2048, vocabulary 8192. The 124M model: 4096 tokens, hidden
// 768, feed-forward 3072, vocabulary 50304; weight_up_124m has 8192 tokens.
constexpr ProductShape kShapes[] = {
    {"forward_qkv", 2048, 1536, 512, false, true},
    {"forward_up_gelu", 2048, 2048, 512, false, true, Epilogue::kGelu},
    {"forward_down", 2048, 512, 2048, false, true},
    {"input_up", 2048, 512, 2048},
    {"input_down_gelu", 2048, 2048, 512, false, false, Epilogue::kGeluGradient},
    {"weight_up", 2048, 512, 2048, true},
    {"head", 512, 8192, 512, false, true},
    {"forward_projection_124m", 4096, 768, 768, false, true},
    {"forward_up_gelu_124m", 4096, 3072, 768, false, true, Epilogue::kGelu},
    {"forward_down_124m", 4096, 768, 3072, false, true},
    {"weight_projection_124m", 768, 768, 4096, true},
    {"weight_up_124m", 3072, 768, 8192, true},
    {"head_124m", 4096, 50304, 768, false, true},
    {"input_head_124m", 4096, 768, 50304},
    {"weight_head_124m", 50304, 768, 4096, true},
};

// `flops` of one iteration of one of the benchmark's threads, whose iterations are counted together.
void SetFlops(benchmark::State& state, double flops) {
  state.counters["FLOP/s"] =
      benchmark::Counter(flops, static_cast<benchmark::Counter::Flags>(benchmark::Counter::kIsIterationInvariantRate |
                                                                       benchmark::Counter::kAvgThreads));
}

void RunProduct(benchmark::State& state, MatmulEngine& engine, const ProductShape& shape, DType type) {
  const DType out = shape.transpose_a ? DType::kFloat32 : type;
  const bool has_epilogue = shape.epilogue != Epilogue::kNone;
  const Memory a(shape.m * shape.k * SizeOf(type));
  const Memory b(shape.n * shape.k * SizeOf(type));
  const Memory c(shape.m * shape.n * SizeOf(out));
  const Memory auxiliary(has_epilogue ? shape.m * shape.n * SizeOf(out) : 0);
  MatmulArgs args{
      .a = {a.data(), type, shape.transpose_a ? Shape{shape.k, shape.m} : Shape{shape.m, shape.k}},
      .b = {b.data(), type, shape.transpose_b ? Shape{shape.n, shape.k} : Shape{shape.k, shape.n}},
      .c = {c.data(), out, {shape.m, shape.n}},
      .transpose_a = shape.transpose_a,
      .transpose_b = shape.transpose_b,
      .accumulate = shape.transpose_a,
      .epilogue = shape.epilogue,
  };
  if (has_epilogue) {
    args.auxiliary = {auxiliary.data(), out, {shape.m, shape.n}};
  }
  for (auto _ : state) {
    engine.Run(args);
  }
  SetFlops(state, 2.0 * static_cast<double>(shape.m * shape.n * shape.k));
}

void RunTile(benchmark::State& state, const ProductKernel& kernel) {
  const std::int64_t depth = RoundUp(kernel.longest_depth, kernel.unit) / 2;
  const Memory a(depth * kernel.rows * 4);
  const Memory b(depth * kernel.columns * 4);
  const Memory sums(4 * std::int64_t{kernel.rows} * kernel.columns);
  if (kernel.enter != nullptr) {
    kernel.enter();
  }
  for (auto _ : state) {
    kernel.multiply({.a = a.data(),
                     .b = b.data(),
                     .depth = depth,
                     .sums = static_cast<float*>(sums.data()),
                     .sums_stride = kernel.columns});
  }
  if (kernel.leave != nullptr) {
    kernel.leave();
  }
  SetFlops(state, 2.0 * kernel.rows * kernel.columns * static_cast<double>(depth));
}

std::set<int> ThreadCounts() { return {1, 2, static_cast<int>(std::max(1U, std::thread::hardware_concurrency()))}; }

void RegisterTile(CpuLevel level, DType type, const ProductKernel& kernel) {
  const std::string name = fmt::format("Tile/{}/{}", NameOf(level), Name(type));
  for (const int threads : ThreadCounts()) {
    benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { RunTile(state, kernel); })
        ->Threads(threads)
        ->UseRealTime();
  }
}

void RegisterEngine(ProductEngine kind, CpuLevel level, DType type) {
  for (const int threads : ThreadCounts()) {
    const std::shared_ptr<MatmulEngine> engine = MakeSingleEngine(kind, level, threads);
    if (engine == nullptr || !engine->Multiplies(type)) {
      return;
    }
    for (const ProductShape& shape : kShapes) {
      const std::string name =
          fmt::format("Product/{}/{}/{}/{}/threads:{}", NameOf(level), NameOf(kind), Name(type), shape.name, threads);
      benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
        RunProduct(state, *engine, shape, type);
      })->UseRealTime();
    }
  }
}

bool RegisterAll() {
  const std::vector<CpuLevel> levels = CpuLevels();
  for (const CpuLevel level : levels) {
    RegisterTile(level, DType::kFloat32, FloatKernel(level));
    RegisterTile(level, DType::kBFloat16, Bf16Kernel(level));
    for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
      RegisterEngine(ProductEngine::kPacked, level, type);
    }
    RegisterEngine(ProductEngine::kWidened, level, DType::kBFloat16);
  }
  for (const ProductEngine kind : {ProductEngine::kOnednn, ProductEngine::kOpenblas}) {
    RegisterEngine(kind, levels.back(), DType::kFloat32);
    RegisterEngine(kind, levels.back(), DType::kBFloat16);
  }
  constexpr ProductShape kSmallest{"smallest", 33, 17, 65};
  benchmark::RegisterBenchmark("Product/smallest", [=](benchmark::State& state) {
    RunProduct(state, *MakeSingleEngine(ProductEngine::kPacked, CpuLevels().back(), 1), kSmallest, DType::kFloat32);
  });
  return true;
}

const bool registered = RegisterAll();

}  // namespace
}  // namespace trireme
