// Which engine multiplies operands of which type. A run has one table for all its ranks: the fixed one, or one that was
// measured once and is kept as text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device/cpu/cpu_level.h"
#include "device/cpu/matmul.h"

namespace trireme {

enum class ProductEngine : std::uint8_t {
  kPacked,    // Trireme's own, with the level's instructions for the type
  kWidened,   // the same with bf16 operands in fp32 panels; for bf16 alone
  kOnednn,    // where built
  kOpenblas,  // where installed; for fp32 alone
  kBlis,      // likewise
};

// "packed", "widened", "onednn", "openblas", "blis".
std::string_view NameOf(ProductEngine engine);

struct EngineTable {
  ProductEngine fp32 = ProductEngine::kPacked;
  ProductEngine bf16 = ProductEngine::kPacked;

  // "fp32=packed bf16=packed"
  std::string ToString() const;
  // Inverse of ToString; empty text gives FixedEngines(). An Error names what it does not know.
  static EngineTable Parse(std::string_view text);
  bool operator==(const EngineTable&) const = default;
};

// Packed for every type: the same on every machine. Tests and deterministic runs use it.
EngineTable FixedEngines();

// One engine and its speed in the shapes of training steps: products forward, of input gradients and of weights'.
struct EngineSpeed {
  ProductEngine engine;
  DType operands;
  double flops_per_second;
};
// Every engine that can multiply the type here, packed first, with products that grow with `threads`. Takes tens of
// milliseconds per engine, on slow cores more (0.3 s on two Neoverse N1 cores); one that is far slower than the
// best is measured with small products alone. Engines from outside choose their instructions themselves, so they
// take part at the machine's highest level alone.
std::vector<EngineSpeed> MeasureEngineSpeeds(CpuLevel level, int threads);
// The fastest of each type; packed unless another is faster by a tenth.
EngineTable FastestEngines(const std::vector<EngineSpeed>& speeds);
struct EngineMeasurement {
  EngineTable table;
  double waited = 0;  // share of the time in which the measuring threads had no core (device/core_wait.h)
};
EngineMeasurement MeasureEngines(CpuLevel level, int threads);

// The table with packed in place of what is missing here or this machine cannot multiply.
EngineTable RunnableEngines(const EngineTable& table, CpuLevel level);
// "engine onednn cannot multiply bf16 here: packed multiplies it instead": where both tables differ; empty: nowhere.
std::string Substitutions(const EngineTable& asked, const EngineTable& runnable);

// An engine that follows RunnableEngines(table, level). `level` is one of CpuLevels().
std::unique_ptr<MatmulEngine> MakeMatmulEngine(CpuLevel level, int threads, const EngineTable& table);
// One engine alone; none where it is not built or installed.
std::unique_ptr<MatmulEngine> MakeSingleEngine(ProductEngine engine, CpuLevel level, int threads);
// "0.3.21": of the library behind an engine; empty where it is not here, and for our own.
std::string LibraryVersion(ProductEngine engine);

}  // namespace trireme
