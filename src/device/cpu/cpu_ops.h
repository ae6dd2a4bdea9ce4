// The operations on the host. HostOps holds what they share; MakeCpuOps makes the class that implements them for an
// instruction level (cpu_ops-inl.h, compiled once per level).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/cpu/cpu_level.h"
#include "device/cpu/matmul.h"
#include "device/cpu/product/engine_choice.h"
#include "device/cpu/product/kernel_table.h"
#include "device/cpu/scratch.h"
#include "device/ops.h"

namespace trireme {

class HostOps : public Ops {
 public:
  HostOps(CpuLevel level, int threads, const EngineTable& engines)
      : threads_(threads), level_(level), bf16_kernel_(Bf16Kernel(level)) {
    set_engines(engines);
  }

  // Engines of products that this machine can run.
  const EngineTable& engines() const { return engines_; }
  // As they were set.
  const EngineTable& asked_engines() const { return asked_engines_; }
  void set_engines(const EngineTable& engines);
  // See Device.
  void set_spare_bytes(std::int64_t bytes);

  // "cpu (avx512, packed)"
  std::string description() const;
  // Scratch that operations keep between calls.
  std::int64_t internal_bytes() const;

 protected:
  // Cosines and sines for `op`, [sequence, pairs] each, one after the other; made where they are not there already.
  const float* PrepareRotary(const Rotary<Tensor>& op);

  // Layers of a model may turn by different angles.
  struct RotaryTable {
    std::int64_t sequence = 0;
    std::vector<double> frequencies;
    float magnitude = 1;
    std::vector<float> values;
  };

  int threads_;
  CpuLevel level_;
  EngineTable asked_engines_;
  EngineTable engines_;
  std::unique_ptr<MatmulEngine> matmul_;
  std::int64_t spare_bytes_ = 0;
  ProductKernel bf16_kernel_;  // of attention
  Scratch scratch_;
  std::vector<RotaryTable> rotary_;  // the last few
  std::vector<BFloat16> wide_a_;     // operands of an fp8 product
  std::vector<BFloat16> wide_b_;
};

// `level` is one of CpuLevels().
std::unique_ptr<HostOps> MakeCpuOps(CpuLevel level, int threads, const EngineTable& engines = FixedEngines());

}  // namespace trireme
