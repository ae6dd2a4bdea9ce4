#include <fmt/format.h>

#include <cmath>

#include "device/cpu/cpu_ops.h"

namespace trireme {

std::string HostOps::description() const { return fmt::format("cpu ({}, {})", NameOf(level_), matmul_->name()); }

void HostOps::set_engines(const EngineTable& engines) {
  engines_ = RunnableEngines(engines, level_);
  matmul_ = MakeMatmulEngine(level_, threads_, engines_);
}

std::int64_t HostOps::internal_bytes() const {
  return scratch_.bytes() + matmul_->internal_bytes() +
         static_cast<std::int64_t>((wide_a_.capacity() + wide_b_.capacity()) * sizeof(BFloat16)) +
         static_cast<std::int64_t>(rotary_.values.size() * sizeof(float));
}

void HostOps::PrepareRotary(const RotaryArgs& args) {
  if (rotary_.sequence == args.sequence && rotary_.head_size == args.head_size && rotary_.theta == args.theta) {
    return;
  }
  const std::int64_t half = args.head_size / 2;
  rotary_ = {args.sequence, args.head_size, args.theta, {}};
  rotary_.values.resize(static_cast<std::size_t>(2 * args.sequence * half));
  float* cosines = rotary_.values.data();
  float* sines = cosines + args.sequence * half;
  for (std::int64_t i = 0; i < half; ++i) {
    const double frequency =
        std::pow(static_cast<double>(args.theta), -2.0 * static_cast<double>(i) / static_cast<double>(args.head_size));
    for (std::int64_t position = 0; position < args.sequence; ++position) {
      const double angle = static_cast<double>(position) * frequency;
      cosines[position * half + i] = static_cast<float>(std::cos(angle));
      sines[position * half + i] = static_cast<float>(std::sin(angle));
    }
  }
}

}  // namespace trireme
