// The FLOP formulas by which runs are compared. Every figure names its formula; none is a measurement.
#pragma once

#include <cstdint>

#include "model/model_config.h"

namespace trireme {

// Multiply-adds that the model itself needs for `samples` sequences, forward and backward, attention halved by the
// causal mask: samples * s * (6 h f e L + 6 (h (q + 2k) + q h) L + 6 h V) + 6 samples s^2 q L, with e = 2 (3 when
// gated) products of the feed-forward, q and k the widths of all query and key heads. What an MFU divides by. With LoRA
// adapters no gradient of those matrices is needed, so that 4 stands for 6 but in the last term, and 6 for each element
// of an adapter is added. In layers with experts f is the width of those that a token passes through, and their router
// is added.
double ModelFlops(const ModelConfig& config, double samples);

// 6 (8 with full recomputation) * parameters * tokens: the estimate of many published tables.
double EstimatedFlops(const ModelConfig& config, double samples, bool recomputation);

// Hardware FLOPs of a GPT by Megatron's published formula: 24 f samples s L h^2 (1 + s/6h + V/16Lh), f = 4 with full
// recomputation, 3 without.
double MegatronFlops(const ModelConfig& config, double samples, bool recomputation);

// Days and GPU-hours that `tokens` take at `flops_per_second` a device, by 8 * tokens * parameters (6 without
// recomputation).
double TrainingDays(double tokens, double parameters, double devices, double flops_per_second, bool recomputation);
double TrainingDeviceHours(double tokens, double parameters, double flops_per_second, bool recomputation);

}  // namespace trireme
