#include "report/log_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cost/formulas.h"

namespace trireme {
namespace {

// "TFLOPs: 1.50", in the largest unit in which the number is at least 0.1: two places after the point show something.
std::string Flops(double tflops) {
  if (tflops >= 0.1) {
    return fmt::format("TFLOPs: {:.2f}", tflops);
  }
  return tflops >= 1e-4 ? fmt::format("GFLOPs: {:.2f}", tflops * 1e3) : fmt::format("MFLOPs: {:.2f}", tflops * 1e6);
}

}  // namespace

StepRates RatesOf(const RunConfig& config, const StepFacts& facts, double peak_flops) {
  const StepResult& step = facts.result;
  const double devices = config.layout.ranks();
  StepRates rates;
  rates.samples_per_second = static_cast<double>(step.global_batch) / step.seconds;
  rates.tokens_per_second = rates.samples_per_second * static_cast<double>(config.model.sequence);
  rates.tflops = facts.hardware_flops / step.seconds / devices / 1e12;
  const double model = ModelFlops(config.model, static_cast<double>(step.global_batch)) / step.seconds / devices;
  rates.model_tflops = model / 1e12;
  rates.share_of_peak = peak_flops > 0 ? model / peak_flops : 0;
  return rates;
}

std::string CompactNumber(double value) {
  static constexpr const char* kUnits[] = {"", "k", "M", "G", "T", "P"};
  int unit = 0;
  while (std::abs(value) >= 1000 && unit < 5) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}{}", value, kUnits[unit]);
}

namespace {

// A part of the short line. The least important parts are left out where the line would be too long.
struct LinePart {
  int rank;  // 0 is never left out
  std::string text;
};

std::string Joined(const std::vector<LinePart>& parts) {
  std::string line;
  for (const LinePart& part : parts) {
    line += (line.empty() ? "" : "  ") + part.text;
  }
  return line;
}

std::string ShortLine(const RunConfig& config, const StepFacts& facts, const StepRates& rates) {
  const StepResult& step = facts.result;
  const std::string total = std::to_string(facts.total_steps);
  std::vector<LinePart> parts = {{0, fmt::format("step {:>{}}/{}", step.step, total.size(), total)},
                                 {0, fmt::format("loss {:.4f}", step.loss)},
                                 {3, fmt::format("norm {:.3g}", step.gradient_norm)},
                                 {5, fmt::format("lr {:.1e}", step.learning_rate)},
                                 {0, fmt::format("{:.3g} s", step.seconds)},
                                 {0, fmt::format("{} tok/s", CompactNumber(rates.tokens_per_second))}};
  const auto add = [&](bool known, int rank, const std::string& text) {
    if (known) {
      parts.push_back({rank, text});
    }
  };
  add(rates.share_of_peak > 0, 2, fmt::format("MFU {:.3g} %", rates.share_of_peak * 100));
  add(facts.skipped_steps > 0, 1, fmt::format("{} skipped", facts.skipped_steps));
  add(config.train.dtype == "fp16", 4, fmt::format("scale {:g}", step.loss_scale));
  add(step.global_batch != config.batch.global, 6, fmt::format("batch {}", step.global_batch));
  add(step.balance && config.layout.data > 1, 7,
      fmt::format("attention +{:.1f} %", step.balance ? step.balance->data_ranks * 100 : 0));
  add(facts.experts.has_value(), 2, fmt::format("experts {:.2f}x", facts.experts ? facts.experts->MaxOverMean() : 0));
  add(config.train.count_zeros, 8, fmt::format("{} zeros", step.zeros));
  while (Joined(parts).size() > kLogColumns) {
    const auto least = std::max_element(parts.begin(), parts.end(),
                                        [](const LinePart& a, const LinePart& b) { return a.rank < b.rank; });
    if (least->rank == 0) {
      break;
    }
    parts.erase(least);
  }
  return Joined(parts);
}

}  // namespace

std::string LogLine(const RunConfig& config, const StepFacts& facts, const StepRates& rates, double predicted_seconds) {
  if (config.log.format == LogFormat::kShort) {
    return ShortLine(config, facts, rates);
  }
  const StepResult& step = facts.result;
  std::string line = fmt::format(
      "iteration {:8d}/{:8d} | consumed samples: {:12d} | consumed tokens: {:14d} | elapsed time per iteration (s): "
      "{:.3f} | learning rate: {:.3E} | global batch size: {:5d} | lm loss: {:.6E} |{} grad norm: {:.3f} |",
      step.step, facts.total_steps, step.consumed_samples, step.consumed_tokens, step.seconds, step.learning_rate,
      step.global_batch, step.loss,
      config.train.dtype == "fp16" ? fmt::format(" loss scale: {:.1f} |", step.loss_scale) : "", step.gradient_norm);
  if (config.train.count_zeros) {
    line += fmt::format(" num zeros: {:.1f} |", static_cast<double>(step.zeros));
  }
  if (facts.experts) {
    line += fmt::format(" expert load: {:.2f} x mean, entropy {:.3f} |", facts.experts->MaxOverMean(),
                        facts.experts->Entropy());
  }
  if (step.balance && config.layout.data > 1) {
    line += fmt::format(" attention imbalance: {:.1f} % |", step.balance->data_ranks * 100);
  }
  line += fmt::format(
      " number of skipped iterations: {:3d} | number of nan iterations: {:3d} | samples per second: {:.3f} | {} | "
      "model "
      "{} | tokens per second: {:.0f} |",
      facts.skipped_steps, facts.nan_steps, rates.samples_per_second, Flops(rates.tflops), Flops(rates.model_tflops),
      rates.tokens_per_second);
  if (rates.share_of_peak > 0) {
    line += fmt::format(" share of peak: {:.1f} % |", rates.share_of_peak * 100);
  }
  if (predicted_seconds > 0) {
    line += fmt::format(" predicted (s): {:.3f} |", predicted_seconds);
  }
  return line;
}

}  // namespace trireme
