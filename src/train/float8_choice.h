// train.fp8_products = "auto" on a GPU: which of a block's products are made in fp8. Copies to fp8 read and write whole
// operands, so that products of few tokens or small widths are faster in bf16.
#pragma once

#include <string>

#include "device/device.h"
#include "lowering/linear_shape.h"
#include "run/run_config.h"

namespace trireme {

// The time of the three products in bf16 over that in fp8 with its copies, by the rates of an H200: a fixed rule.
double EstimatedGain(const LinearShape& shape);
// The gain, measured on `device`.
double MeasuredGain(Device& device, const LinearShape& shape);

// The set for a run with this micro batch, as text; "all" on a CPU, which has fp8 for tests, and on a paced device.
// Cases that are not clear by the rule are measured on `device`, unless train.deterministic: ranks must not choose each
// for itself (MemoryChoices, operate/run_start.h).
std::string ChooseFloat8Products(const RunConfig& config, Device& device);

}  // namespace trireme
