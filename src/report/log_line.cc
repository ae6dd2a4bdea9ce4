#include "report/log_line.h"

#include <fmt/format.h>

#include <cmath>

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

// What every step has, then more in the order of its weight, each where it still fits.
std::string ShortLine(const RunConfig& config, const StepFacts& facts, const StepRates& rates,
                      double predicted_seconds) {
  constexpr std::size_t kMost = 120;
  const StepResult& step = facts.result;
  const std::string total = std::to_string(facts.total_steps);
  std::string line = fmt::format("step {:>{}}/{} | loss {:.4f} | norm {:.3g} | lr {:.2e} | {:.4g} s | {} tok/s",
                                 step.step, total.size(), total, step.loss, step.gradient_norm, step.learning_rate,
                                 step.seconds, CompactNumber(rates.tokens_per_second));
  const auto add = [&](bool known, const std::string& part) {
    line += known && line.size() + part.size() <= kMost ? part : "";
  };
  add(facts.skipped_steps > 0, fmt::format(" | {} skipped", facts.skipped_steps));
  add(config.train.dtype == "fp16", fmt::format(" | scale {:g}", step.loss_scale));
  add(config.train.count_zeros, fmt::format(" | {} zeros", step.zeros));
  add(step.balance && config.layout.data > 1,
      fmt::format(" | attention +{:.1f} %", step.balance ? step.balance->data_ranks * 100 : 0));
  add(step.global_batch != config.batch.global, fmt::format(" | batch {}", step.global_batch));
  add(rates.share_of_peak > 0, fmt::format(" | {:.1f} % peak", rates.share_of_peak * 100));
  add(predicted_seconds > 0, fmt::format(" | predicted {:.3g} s", predicted_seconds));
  return line;
}

}  // namespace

std::string LogLine(const RunConfig& config, const StepFacts& facts, const StepRates& rates, double predicted_seconds) {
  if (config.log.format == LogFormat::kShort) {
    return ShortLine(config, facts, rates, predicted_seconds);
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
