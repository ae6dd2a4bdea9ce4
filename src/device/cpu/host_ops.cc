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

const float* HostOps::PrepareRotary(const Rotary<Tensor>& op) {
  constexpr std::size_t kMostTables = 4;
  const std::vector<double> frequencies = RotaryFrequencies(op);
  for (const RotaryTable& table : rotary_) {
    if (table.sequence == op.sequence && table.magnitude == op.magnitude && table.frequencies == frequencies) {
      return table.values.data();
    }
  }
  if (rotary_.size() == kMostTables) {
    rotary_.erase(rotary_.begin());
  }
  const std::vector<float> values = RotaryTableOf(op.sequence, frequencies, op.magnitude);
  rotary_.push_back({op.sequence, frequencies, op.magnitude, values});
  return rotary_.back().values.data();
}

}  // namespace trireme
