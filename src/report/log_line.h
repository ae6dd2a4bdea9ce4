// The line of a step, in two formats (log.format). "short" fits in 80 columns; what does not fit is left
// out, the least important first, and stands in metrics.jsonl. "megatron" is the one that users'
// log parsers know: names and order are a contract. A field whose value is not known is left out: "num zeros" without
// train.count_zeros, "loss scale" unless train.dtype is fp16. TFLOPs become GFLOPs or MFLOPs where they
// would print as 0.
#pragma once

#include <cstddef>
#include <string>

#include "operate/training_loop.h"

namespace trireme {

inline constexpr std::size_t kLogColumns = 80;

struct StepRates {
  double samples_per_second = 0;
  double tokens_per_second = 0;
  double tflops = 0;         // a device: FLOPs executed, recomputation included
  double model_tflops = 0;   // a device: ModelFlops
  double share_of_peak = 0;  // model FLOP/s over the device's peak; 0 when unknown
};

StepRates RatesOf(const RunConfig& config, const StepFacts& facts, double peak_flops);
// In the format that config.log.format names. predicted_seconds: of the step, by the planner; 0 when unknown; "short"
// leaves it out.
std::string LogLine(const RunConfig& config, const StepFacts& facts, const StepRates& rates,
                    double predicted_seconds = 0);

// "12.5k", "3.41M": three or four digits.
std::string CompactNumber(double value);

}  // namespace trireme
