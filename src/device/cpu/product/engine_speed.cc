// The measurement behind a choice of engines.
#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <optional>
#include <span>
#include <vector>

#include "device/core_wait.h"
#include "device/cpu/product/engine_choice.h"

namespace trireme {
namespace {

// The three products of a linear layer, and two that end with gelu and its gradient.
struct Layer {
  std::int64_t tokens;
  std::int64_t in;
  std::int64_t out;
};
constexpr double kFarBelow = 0.4;
constexpr double kSlowMachine = 2e9;  // FLOP/s of the best engine
constexpr int kRepetitions = 3;
constexpr double kLongEnough = 0.02;   // seconds: a product that takes as long is not repeated
constexpr double kMostSeconds = 0.25;  // of an engine and a type with more than the fewest tokens, about

double FlopsOf(const Layer& layer) { return 10.0 * static_cast<double>(layer.tokens * layer.in * layer.out); }

// Measured first: an engine far below the best here, and a machine as slow as an emulated one, get no larger ones.
Layer ProbeFor(int threads) { return {std::clamp<std::int64_t>(std::int64_t{32} * threads, 128, 512), 256, 256}; }

// Tokens grow with the threads: a product of few is over before many threads are awake, and training steps have none
// that small. `speed`: of a probe.
std::array<Layer, 2> LayersFor(int threads, double speed) {
  constexpr std::int64_t kLeast = 512;
  std::int64_t tokens = std::clamp<std::int64_t>(std::int64_t{256} * threads, kLeast, 4096);
  const auto layers = [&] { return std::array<Layer, 2>{{{tokens, 512, 1024}, {tokens, 1024, 512}}}; };
  while (tokens > kLeast && (1 + kRepetitions) * (FlopsOf(layers()[0]) + FlopsOf(layers()[1])) > kMostSeconds * speed) {
    tokens = std::max(kLeast, tokens / 2);
  }
  return layers();
}

// Buffers for operands of any type: fp32 takes the most.
struct Buffers {
  explicit Buffers(const Layer& layer)
      : x(layer.tokens * layer.in, 1),
        w(layer.in * layer.out, 1),
        y(layer.tokens * layer.out, 1),
        z(layer.tokens * layer.out, 1),
        gradient(layer.in * layer.out, 0) {}
  std::vector<float> x, w, y, z, gradient;
};

double SecondsOf(MatmulEngine& engine, const MatmulArgs& args) {
  double best = 0;
  for (int i = 0; i <= kRepetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    engine.Run(args);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    // The first run makes buffers and primitives too: it counts only where those cannot be most of it.
    if (i <= 1 || seconds < best) {
      best = seconds;
    }
    if (seconds > (i == 0 ? 10 * kLongEnough : kLongEnough)) {
      break;
    }
  }
  return best;
}

double SpeedOf(MatmulEngine& engine, DType type, std::span<const Layer> layers) {
  double seconds = 0;
  double flops = 0;
  for (const Layer& layer : layers) {
    Buffers buffers(layer);
    const Tensor x{buffers.x.data(), type, {layer.tokens, layer.in}};
    const Tensor w{buffers.w.data(), type, {layer.out, layer.in}};
    const Tensor y{buffers.y.data(), type, {layer.tokens, layer.out}};
    const Tensor z{buffers.z.data(), type, {layer.tokens, layer.out}};
    const Tensor gradient{buffers.gradient.data(), DType::kFloat32, {layer.out, layer.in}};
    MatmulArgs forward{.a = x, .b = w, .c = y, .transpose_b = true};
    seconds += SecondsOf(engine, forward);
    seconds += SecondsOf(engine, {.a = y, .b = w, .c = x});
    forward.auxiliary = z;
    for (const Epilogue epilogue : {Epilogue::kGelu, Epilogue::kGeluGradient}) {
      forward.epilogue = epilogue;
      seconds += SecondsOf(engine, forward);
    }
    seconds += SecondsOf(engine, {.a = y, .b = x, .c = gradient, .transpose_a = true, .accumulate = true});
    flops += FlopsOf(layer);
  }
  return flops / seconds;
}

bool FromOutside(ProductEngine engine) { return engine != ProductEngine::kPacked && engine != ProductEngine::kWidened; }

std::vector<EngineSpeed> MeasureInThisThread(CpuLevel level, int threads) {
  constexpr ProductEngine kAll[] = {ProductEngine::kPacked, ProductEngine::kWidened, ProductEngine::kOnednn,
                                    ProductEngine::kOpenblas, ProductEngine::kBlis};
  const bool highest = level == CpuLevels().back();
  std::vector<EngineSpeed> speeds;
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    const Layer small = ProbeFor(threads);
    std::optional<std::array<Layer, 2>> layers;  // the same for all engines
    double best_probe = 0;
    for (const ProductEngine kind : kAll) {
      const auto engine = FromOutside(kind) && !highest ? nullptr : MakeSingleEngine(kind, level, threads);
      const bool repeats_packed = kind == ProductEngine::kWidened && type == DType::kFloat32;
      if (engine != nullptr && engine->Multiplies(type) && !repeats_packed) {
        const double probe = SpeedOf(*engine, type, {&small, 1});
        best_probe = std::max(best_probe, probe);
        if (!layers) {
          layers = LayersFor(threads, probe);
        }
        const bool probe_is_enough = probe < kFarBelow * best_probe || best_probe < kSlowMachine;
        speeds.push_back({kind, type, probe_is_enough ? probe : SpeedOf(*engine, type, *layers)});
      }
    }
  }
  return speeds;
}

}  // namespace

std::vector<EngineSpeed> MeasureEngineSpeeds(CpuLevel level, int threads) {
  // In a thread whose OpenMP team ends with it. An idle team would count among the threads that OpenMP's runtime
  // compares with the cores, and threads of a team at work would sleep where they can spin.
  return std::async(std::launch::async, MeasureInThisThread, level, threads).get();
}

EngineTable FastestEngines(const std::vector<EngineSpeed>& speeds) {
  constexpr double kWorthIt = 1.1;
  const auto fastest = [&](DType type) {
    ProductEngine best = ProductEngine::kPacked;
    double to_beat = 0;
    for (const EngineSpeed& speed : speeds) {
      if (speed.operands == type && speed.flops_per_second > to_beat) {
        best = speed.engine;
        to_beat = speed.flops_per_second * (best == ProductEngine::kPacked ? kWorthIt : 1.0);
      }
    }
    return best;
  };
  return {.fp32 = fastest(DType::kFloat32), .bf16 = fastest(DType::kBFloat16)};
}

EngineMeasurement MeasureEngines(CpuLevel level, int threads) {
  const auto measure = [&] {
    const CoreWait wait;
    const std::vector<EngineSpeed> speeds = MeasureInThisThread(level, threads);
    return EngineMeasurement{.table = FastestEngines(speeds), .waited = wait.Share(threads)};
  };
  return std::async(std::launch::async, measure).get();
}

}  // namespace trireme
