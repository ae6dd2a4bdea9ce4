#include "device/rotary_table.h"

#include <cmath>

namespace trireme {

std::vector<double> RotaryFrequencies(const Rotary<Tensor>& op) {
  std::vector<double> frequencies(op.frequencies.begin(), op.frequencies.end());
  for (std::int64_t i = 0; op.frequencies.empty() && i < op.pairs(); ++i) {
    frequencies.push_back(
        std::pow(static_cast<double>(op.theta), -2.0 * static_cast<double>(i) / static_cast<double>(op.head_size)));
  }
  return frequencies;
}

std::vector<float> RotaryTableOf(std::int64_t sequence, const std::vector<double>& frequencies, float magnitude) {
  const std::size_t pairs = frequencies.size();
  const std::size_t half = static_cast<std::size_t>(sequence) * pairs;
  std::vector<float> table(2 * half);
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    for (std::int64_t position = 0; position < sequence; ++position) {
      const double angle = static_cast<double>(position) * frequencies[pair];
      const std::size_t at = static_cast<std::size_t>(position) * pairs + pair;
      table[at] = static_cast<float>(std::cos(angle)) * magnitude;
      table[half + at] = static_cast<float>(std::sin(angle)) * magnitude;
    }
  }
  return table;
}

}  // namespace trireme
