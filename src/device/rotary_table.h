// The table that rotary positions are turned by, made on the host for every device.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/rotary.h"

namespace trireme {

// Frequencies of each pair: op.frequencies, or the powers of op.theta.
std::vector<double> RotaryFrequencies(const Rotary<Tensor>& op);

// Cosines, then sines, each [sequence, pairs], times `magnitude`.
std::vector<float> RotaryTableOf(std::int64_t sequence, const std::vector<double>& frequencies, float magnitude);

}  // namespace trireme
