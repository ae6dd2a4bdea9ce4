#include <fmt/format.h>

#include "device/cpu/cpu_ops.h"
#include "device/rotary_table.h"

namespace trireme {

std::string HostOps::description() const { return fmt::format("cpu ({}, {})", NameOf(level_), matmul_->name()); }

void HostOps::set_engines(const EngineTable& engines) {
  asked_engines_ = engines;
  engines_ = RunnableEngines(engines, level_);
  matmul_ = MakeMatmulEngine(level_, threads_, engines_);
  matmul_->set_spare_bytes(spare_bytes_);
}

void HostOps::set_spare_bytes(std::int64_t bytes) {
  spare_bytes_ = bytes;
  matmul_->set_spare_bytes(bytes);
}

std::int64_t HostOps::internal_bytes() const {
  std::size_t rotary = 0;
  for (const RotaryTable& table : rotary_) {
    rotary += table.values.size() * sizeof(float);
  }
  return scratch_.bytes() + matmul_->internal_bytes() +
         static_cast<std::int64_t>((wide_a_.capacity() + wide_b_.capacity()) * sizeof(BFloat16) + rotary);
}

const float* HostOps::PrepareRotary(const RotaryArgs& args) {
  constexpr std::size_t kMostTables = 4;
  const std::vector<double> frequencies = RotaryFrequencies(args);
  for (const RotaryTable& table : rotary_) {
    if (table.sequence == args.sequence && table.magnitude == args.magnitude && table.frequencies == frequencies) {
      return table.values.data();
    }
  }
  if (rotary_.size() == kMostTables) {
    rotary_.erase(rotary_.begin());
  }
  const std::vector<float> values = RotaryTableOf(args.sequence, frequencies, args.magnitude);
  rotary_.push_back({args.sequence, frequencies, args.magnitude, values});
  return rotary_.back().values.data();
}

}  // namespace trireme
