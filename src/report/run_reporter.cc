#include "report/run_reporter.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "cost/formulas.h"
#include "cost/step_cost.h"

namespace trireme {
namespace {

std::string Bar(double done) {
  constexpr int kWidth = 24;
  const int filled = static_cast<int>(done * kWidth);
  return std::string(static_cast<std::size_t>(filled), '#') +
         std::string(static_cast<std::size_t>(kWidth - filled), '.');
}

}  // namespace

std::string HumanBytes(std::int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1000 && unit < 4) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 1, kUnits[unit]);
}

void RunReporter::Print(const std::string& line) {
  const std::scoped_lock lock(console_);
  const std::string text = progress_shown_ ? "\r\033[K" + line + "\n" : line + "\n";
  progress_shown_ = false;
  Put(text);
}

// A reader that does not read (a stopped pager, a full pipe) must not stop the ranks: after a second lines are left out
// until it reads again. metrics.jsonl has them all.
void RunReporter::Put(const std::string& text) {
  constexpr int kPatience = 1000;  // milliseconds
  pollfd console{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  if (poll(&console, 1, left_out_ > 0 ? 0 : kPatience) == 0) {
    ++left_out_;
    return;
  }
  if (left_out_ > 0) {
    fmt::print(stdout, "({} lines were left out: nobody read them)\n", std::exchange(left_out_, 0));
  }
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

void RunReporter::Started(const Trainer& trainer, std::int64_t resumed_step) {
  config_ = trainer.config();
  peak_flops_ = trainer.device().peak_flops(ProductDType(config_.train.dtype));
  memory_bytes_ = MemoryOfStage(StageOfRun(config_, 0, config_.batch.global).description()).total();
  StartPrediction(trainer, resumed_step);
  if (!options_.run_folder.empty()) {
    metrics_ = std::make_unique<MetricsFile>(options_.run_folder, resumed_step);
  }
  const ModelConfig& model = config_.model;
  Print(fmt::format("{}: {:.2f} M parameters, {} layers x {} hidden x {} heads, vocabulary {}, sequence {}",
                    model.family, static_cast<double>(ParameterCount(model)) / 1e6, model.layers, model.hidden,
                    model.heads, model.vocabulary, model.sequence));
  const int threads = trainer.device().is_host() ? config_.train.threads : 0;
  Print(fmt::format("{} on {} ranks, {}, device {}{}", config_.layout.ToString(), config_.layout.ranks(),
                    config_.train.dtype, trainer.device().description(),
                    threads > 0 ? fmt::format(", {} thread{} per rank", threads, threads == 1 ? "" : "s") : ""));
  Print(
      "TFLOPs (GFLOPs, MFLOPs): operations executed per device and second, recomputation included; model TFLOPs: those "
      "the model needs, attention halved by the causal mask");
  if (resumed_step > 0) {
    Print(fmt::format("resumed after step {}", resumed_step));
  }
  Predict(trainer, resumed_step);
}

// What the planner cannot price costs the prediction, not the run.
void RunReporter::StartPrediction(const Trainer& trainer, std::int64_t resumed_step) {
  prediction_ = nullptr;
  if (!options_.ground) {
    return;
  }
  try {
    auto prediction = std::make_unique<PredictionReport>(config_, *options_.ground, options_.run_folder);
    prediction->ReadEarlierSteps(resumed_step);
    by_cause_ = trainer.device().is_host();
    prediction_ = std::move(prediction);
  } catch (const Error& error) {
    Print(fmt::format("the run is not predicted: {}", error.what()));
  }
}

void RunReporter::Predict(const Trainer& trainer, std::int64_t resumed_step) {
  if (prediction_ == nullptr) {
    return;
  }
  const RunSchedule& schedule = trainer.schedule();
  const std::int64_t total = schedule.TotalSteps(trainer.position());
  std::vector<PredictionReport::Stretch> remaining;
  std::int64_t consumed = trainer.position().consumed_samples;
  for (std::int64_t step = resumed_step; step < total; ++step) {
    const std::int64_t batch = schedule.GlobalBatchAt(consumed);
    if (batch == config_.batch.global) {
      remaining.push_back({batch, total - step});
      break;
    }
    if (remaining.empty() || remaining.back().global_batch != batch) {
      remaining.push_back({batch, 0});
    }
    ++remaining.back().steps;
    consumed += batch;
  }
  std::int64_t memory = 0;
  for (int stage = 0; stage < config_.layout.pipeline; ++stage) {
    memory = std::max(memory, MemoryOfStage(StageOfRun(config_, stage, config_.batch.global).description()).total());
  }
  Print(prediction_->Expectation(remaining, memory));
}

void RunReporter::Ended() {
  if (const std::string summary = prediction_ != nullptr ? prediction_->Summary() : ""; !summary.empty()) {
    Print(summary);
  }
}

void RunReporter::StepDone(const StepFacts& facts) {
  const StepRates rates = RatesOf(config_, facts, peak_flops_);
  const double predicted = prediction_ != nullptr ? prediction_->Seconds(facts.result.global_batch) : 0;
  if (metrics_ != nullptr) {
    metrics_->Add(config_, facts, rates, memory_bytes_, predicted);
  }
  if (first_loss_ == 0) {
    first_loss_ = facts.result.loss;
  }
  const std::int64_t step = facts.result.step;
  if (step % options_.log_every == 0 || step == 1 || step == facts.total_steps || facts.result.skipped) {
    Print(LogLine(config_, facts, rates, predicted));
  }
  if (prediction_ != nullptr) {
    if (const std::string slow = prediction_->StepDone(facts, by_cause_); !slow.empty()) {
      Print(slow);
    }
  }
  if (facts.result.skipped) {
    Print(fmt::format("step {}: the loss or a gradient is not finite; no rank updated its weights", step));
  }
  if (options_.live && step < facts.total_steps) {
    ShowProgress(facts, rates);
  }
}

void RunReporter::ShowProgress(const StepFacts& facts, const StepRates& rates) {
  const StepResult& step = facts.result;
  seconds_ = seconds_ == 0 ? step.seconds : 0.9 * seconds_ + 0.1 * step.seconds;
  const double done = static_cast<double>(step.step) / static_cast<double>(facts.total_steps);
  const auto left = static_cast<std::int64_t>(seconds_ * static_cast<double>(facts.total_steps - step.step));
  const std::string line =
      fmt::format("\r\033[K[{}] {}/{}  loss {:.3f} (began at {:.3f})  {:.0f} tokens/s  {}:{:02d} left", Bar(done),
                  step.step, facts.total_steps, step.loss, first_loss_, rates.tokens_per_second, left / 60, left % 60);
  const std::scoped_lock lock(console_);
  Put(line);
  progress_shown_ = true;
}

void RunReporter::Validated(std::int64_t step, double loss) {
  if (metrics_ != nullptr) {
    metrics_->AddValidation(step, loss);
  }
  Print(fmt::format("validation loss at iteration {} | lm loss value: {:.6E} | lm loss PPL: {:.6E} |", step, loss,
                    std::exp(loss)));
}

void RunReporter::MemoryMeasured(const std::vector<MemoryUse>& by_rank) {
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    std::string line = fmt::format("[rank {}] memory:", rank);
    for (int kind = 0; kind < kMemoryKinds; ++kind) {
      const auto memory = static_cast<MemoryKind>(kind);
      if (memory != MemoryKind::kHost) {
        line += fmt::format(" {} {} |", Name(memory), HumanBytes(by_rank[rank][memory]));
      }
    }
    line += " total " + HumanBytes(by_rank[rank].total());
    if (const std::int64_t host = by_rank[rank][MemoryKind::kHost]; host > 0) {
      line += fmt::format(" | in host memory {}", HumanBytes(host));
    }
    memory_bytes_ = std::max(memory_bytes_, by_rank[rank].total());
    Print(line);
  }
}

void RunReporter::Note(const std::string& message) { Print(message); }

}  // namespace trireme
