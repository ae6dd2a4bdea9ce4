#include "model/rotary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <string_view>

#include "base/error.h"

namespace trireme {
namespace {

double Original(const ModelConfig& model) {
  return static_cast<double>(model.rope_original > 0 ? model.rope_original : model.sequence);
}

double OrDefault(double value, double otherwise) { return value > 0 ? value : otherwise; }

double Llama3Frequency(const ModelConfig& model, double frequency) {
  const double low = OrDefault(model.rope_low, 1);
  const double high = OrDefault(model.rope_high, 4);
  const double turns = Original(model) * frequency / (2 * std::numbers::pi);
  const double divided = std::clamp((high - turns) / (high - low), 0.0, 1.0);
  return (1 - divided) * frequency + divided * frequency / model.rope_factor;
}

// The pair, counted in halves of elements, that turns `turns` times within the original positions.
double PairOfTurns(const ModelConfig& model, double turns) {
  return static_cast<double>(model.rotary_size()) * std::log(Original(model) / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(model.rope_theta));
}

double YarnFrequency(const ModelConfig& model, double frequency, std::int64_t pair) {
  const double last = static_cast<double>(model.rotary_size() - 1);
  const double first_mixed = std::max(std::floor(PairOfTurns(model, OrDefault(model.rope_high, 32))), 0.0);
  double last_mixed = std::min(std::ceil(PairOfTurns(model, OrDefault(model.rope_low, 1))), last);
  if (last_mixed == first_mixed) {
    last_mixed += 0.001;
  }
  const double divided = std::clamp((static_cast<double>(pair) - first_mixed) / (last_mixed - first_mixed), 0.0, 1.0);
  return (1 - divided) * frequency + divided * frequency / model.rope_factor;
}

}  // namespace

bool TakesLongFactors(const ModelConfig& model, std::int64_t positions) {
  return static_cast<double>(positions) > Original(model);
}

double YarnMagnitude(double factor, double scale) { return factor > 1 ? 0.1 * scale * std::log(factor) + 1 : 1; }

double LongRopeMagnitude(double factor, double original) {
  return factor > 1 ? std::sqrt(1 + std::log(factor) / std::log(original)) : 1;
}

std::vector<double> ParseRopeFactors(const char* key, const std::string& text) {
  std::vector<double> factors;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    std::string_view word = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    word.remove_prefix(std::min(word.find_first_not_of(' '), word.size()));
    word = word.substr(0, word.find_last_not_of(' ') + 1);
    const std::string number(word);
    char* end = nullptr;
    const double factor = std::strtod(number.c_str(), &end);
    Require(!number.empty() && *end == '\0' && std::isfinite(factor) && factor > 0,
            "model.{}: '{}' is no number above 0; write them with commas between them, as \"1, 1.25\"", key, word);
    factors.push_back(factor);
  }
  return factors;
}

std::string FormatRopeFactors(const std::vector<double>& factors) {
  return fmt::format("{}", fmt::join(factors, ", "));
}

RotaryAngles RotaryAnglesOf(const ModelConfig& model, std::int64_t layer, std::int64_t positions) {
  const bool local = model.local_rope_theta > 0 && model.WindowOf(layer) > 0;
  const double theta = local ? model.local_rope_theta : model.rope_theta;
  const RopeScaling scaling = local ? RopeScaling::kNone : model.rope_scaling;
  const auto size = static_cast<double>(model.rotary_size());
  RotaryAngles angles;
  std::vector<double> factors;
  if (scaling == RopeScaling::kLongRope) {
    const bool longer = TakesLongFactors(model, positions > 0 ? positions : model.sequence);
    factors = longer ? ParseRopeFactors("rope_long_factors", model.rope_long_factors)
                     : ParseRopeFactors("rope_short_factors", model.rope_short_factors);
    angles.magnitude = static_cast<float>(LongRopeMagnitude(model.rope_factor, Original(model)));
  }
  for (std::int64_t pair = 0; pair < model.rotary_size() / 2; ++pair) {
    double frequency = std::pow(theta, -2.0 * static_cast<double>(pair) / size);
    switch (scaling) {
      case RopeScaling::kNone:
        break;
      case RopeScaling::kLinear:
        frequency /= model.rope_factor;
        break;
      case RopeScaling::kLlama3:
        frequency = Llama3Frequency(model, frequency);
        break;
      case RopeScaling::kYarn:
        frequency = YarnFrequency(model, frequency, pair);
        break;
      case RopeScaling::kLongRope:
        frequency /= factors[static_cast<std::size_t>(pair)];
        break;
    }
    angles.frequencies.push_back(frequency);
  }
  if (scaling == RopeScaling::kYarn) {
    angles.magnitude = static_cast<float>(YarnMagnitude(model.rope_factor));
  }
  if (model.rope_magnitude > 0 && (scaling == RopeScaling::kYarn || scaling == RopeScaling::kLongRope)) {
    angles.magnitude = static_cast<float>(model.rope_magnitude);
  }
  return angles;
}

}  // namespace trireme
