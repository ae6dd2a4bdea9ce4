// The measurement behind a choice of engines.
#include <algorithm>
#include <chrono>
#include <span>
#include <vector>

#include "device/cpu/product/engine_choice.h"

namespace trireme {
namespace {

// The three products of a linear layer, and two that end with gelu and its gradient.
struct Layer {
  std::int64_t tokens;
  std::int64_t in;
  std::int64_t out;
};
constexpr Layer kLayers[] = {{512, 512, 1024}, {512, 1024, 512}};
// Measured first: an engine far below the best here, and a machine as slow as an emulated one, get no larger ones.
constexpr Layer kProbe[] = {{128, 256, 256}};
constexpr double kFarBelow = 0.2;
constexpr double kSlowMachine = 2e9;  // FLOP/s of the best engine
constexpr int kRepetitions = 3;
constexpr double kLongEnough = 0.02;  // seconds: a product that takes as long is not repeated

struct Buffers {
  explicit Buffers(std::int64_t elements)
      : x(elements, 1), w(elements, 1), y(elements, 1), z(elements, 1), gradient(elements, 0) {}
  // Of any type: fp32 takes the most.
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
    Buffers buffers(static_cast<std::int64_t>(1024) * 1024);
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
    flops += 10.0 * static_cast<double>(layer.tokens * layer.in * layer.out);
  }
  return flops / seconds;
}

bool FromOutside(ProductEngine engine) {
  return engine == ProductEngine::kOnednn || engine == ProductEngine::kOpenblas;
}

}  // namespace

std::vector<EngineSpeed> MeasureEngineSpeeds(CpuLevel level, int threads) {
  constexpr ProductEngine kAll[] = {ProductEngine::kPacked, ProductEngine::kWidened, ProductEngine::kOnednn,
                                    ProductEngine::kOpenblas};
  const bool highest = level == CpuLevels().back();
  std::vector<EngineSpeed> speeds;
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    double best_probe = 0;
    for (const ProductEngine kind : kAll) {
      const auto engine = FromOutside(kind) && !highest ? nullptr : MakeSingleEngine(kind, level, threads);
      const bool repeats_packed = kind == ProductEngine::kWidened && type == DType::kFloat32;
      if (engine != nullptr && engine->Multiplies(type) && !repeats_packed) {
        const double probe = SpeedOf(*engine, type, kProbe);
        best_probe = std::max(best_probe, probe);
        const bool probe_is_enough = probe < kFarBelow * best_probe || best_probe < kSlowMachine;
        speeds.push_back({kind, type, probe_is_enough ? probe : SpeedOf(*engine, type, kLayers)});
      }
    }
  }
  return speeds;
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

EngineTable MeasureEngines(CpuLevel level, int threads) { return FastestEngines(MeasureEngineSpeeds(level, threads)); }

}  // namespace trireme
