#include "report/log_line.h"

#include <fmt/format.h>

#include "cost/formulas.h"

namespace trireme {

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

std::string LogLine(const RunConfig& config, const StepFacts& facts, const StepRates& rates) {
  const StepResult& step = facts.result;
  std::string line = fmt::format(
      "iteration {:8d}/{:8d} | consumed samples: {:12d} | consumed tokens: {:14d} | elapsed time per iteration (s): "
      "{:.3f} | learning rate: {:.3E} | global batch size: {:5d} | lm loss: {:.6E} | loss scale: {:.1f} | grad norm: "
      "{:.3f} | num zeros: {:.1f} | number of skipped iterations: {:3d} | number of nan iterations: {:3d} | samples "
      "per "
      "second: {:.3f} | TFLOPs: {:.2f} |",
      step.step, facts.total_steps, step.consumed_samples, step.consumed_samples * config.model.sequence, step.seconds,
      step.learning_rate, step.global_batch, step.loss, 1.0, step.gradient_norm, static_cast<double>(step.zeros),
      facts.skipped_steps, facts.skipped_steps, rates.samples_per_second, rates.tflops);
  line +=
      fmt::format(" model TFLOPs: {:.2f} | tokens per second: {:.0f} |", rates.model_tflops, rates.tokens_per_second);
  if (rates.share_of_peak > 0) {
    line += fmt::format(" share of peak: {:.1f} % |", rates.share_of_peak * 100);
  }
  return line;
}

}  // namespace trireme
