#include "report/run_reporter.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/durable_file.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/units.h"
#include "comm/ledger.h"
#include "cost/formulas.h"
#include "cost/step_cost.h"
#include "model/float8_products.h"
#include "report/events.h"
#include "report/run_lines.h"
#include "report/trace_merge.h"
#include "topology/layout.h"

namespace trireme {

void RunReporter::Print(const std::string& line) {
  const std::scoped_lock lock(console_);
  Put(EraseScreen() + line + "\n");
}

std::string RunReporter::EraseScreen() {
  const int lines = std::exchange(screen_lines_, 0);
  return lines > 0 ? fmt::format("\033[{}A\r\033[J", lines) : "";
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
    fmt::print(stdout, "({} lines were left out: the reader of this output was too slow)\n",
               std::exchange(left_out_, 0));
  }
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

void RunReporter::Started(const Trainer& trainer, std::int64_t resumed_step) {
  config_ = trainer.config();
  peak_flops_ = trainer.device().peak_flops(ProductDType(config_.train.dtype));
  memory_bytes_ = MemoryOfStage(StageOfRun(config_, 0, config_.batch.global).description()).total();
  by_cause_ = trainer.device().is_host();
  step_ = resumed_step;
  StartPrediction(resumed_step);
  if (!options_.run_folder.empty()) {
    if (metrics_ != nullptr) {
      metrics_->GoBack(resumed_step);
    } else {
      metrics_ = std::make_unique<MetricsFile>(options_.run_folder, resumed_step,
                                               [this](const std::string& text) { Note(text); });
    }
    StartTensorBoard(resumed_step);
  }
  const ModelConfig& model = config_.model;
  screen_.title = fmt::format("{} {} parameters, {}", model.family,
                              CompactNumber(static_cast<double>(ParameterCount(model))), config_.layout.ToString());
  const ScheduleState schedule = trainer.schedule().StateAt(trainer.progress().consumed_samples);
  Print(StartLines({.config = config_,
                    .device = trainer.device().description(),
                    .threads = trainer.device().is_host() ? config_.train.threads : 0,
                    .samples_of_epoch = trainer.sources().train->samples(),
                    .from = trainer.progress(),
                    .steps = trainer.schedule().TotalSteps(trainer.progress()),
                    .samples = schedule.end_samples,
                    .folder = options_.run_folder}));
  if (config_.log.format == LogFormat::kMegatron) {
    Print(
        "TFLOPs (GFLOPs, MFLOPs): operations executed per device and second, recomputation included; model TFLOPs: "
        "those "
        "the model needs, attention halved by the causal mask");
  }
  if (config_.log.timers && !by_cause_) {
    Print("log.timers: on a GPU the host runs ahead of the device: its phases say nothing and are not printed");
  }
  paced_ = trainer.device().is_paced();  // simulated steps take no energy
  if (!paced_) {
    ReadEnergy();
  }
  Record("start", resumed_step > 0 ? fmt::format("resumed after step {}", resumed_step) : "started");
  Predict(trainer, resumed_step);
}

void RunReporter::StartTensorBoard(std::int64_t resumed_step) {
  const std::scoped_lock lock(records_);
  tensorboard_ = nullptr;
  if (!config_.log.tensorboard) {
    return;
  }
  tensorboard_ = std::make_unique<TensorBoardFile>(options_.run_folder, resumed_step + 1);
  std::map<std::string, std::string> values;
  std::string table = "| key | value |\n|---|---|\n";
  for (const KeyValue& entry : Flatten(config_)) {
    values[entry.key] = entry.value;
    table += fmt::format("| {} | {} |\n", entry.key, entry.value);
  }
  tensorboard_->AddHyperParameters(options_.run_folder, values);
  tensorboard_->AddText(resumed_step, "configuration", table);
}

void RunReporter::AddToTensorBoard(const StepFacts& facts, const StepRates& rates, double predicted) {
  const std::scoped_lock lock(records_);
  if (tensorboard_ == nullptr) {
    return;
  }
  const StepResult& step = facts.result;
  std::map<std::string, double> values = {{"loss/training", step.loss},
                                          {"optimizer/gradient_norm", step.gradient_norm},
                                          {"optimizer/learning_rate", step.learning_rate},
                                          {"batch/global", static_cast<double>(step.global_batch)},
                                          {"batch/consumed_samples", static_cast<double>(step.consumed_samples)},
                                          {"speed/seconds", step.seconds},
                                          {"speed/tokens_per_second", rates.tokens_per_second},
                                          {"speed/model_tflops", rates.model_tflops},
                                          {"memory/bytes", static_cast<double>(memory_bytes_)}};
  if (config_.train.dtype == "fp16") {
    values["optimizer/loss_scale"] = step.loss_scale;
  }
  if (facts.experts) {
    values["experts/max_over_mean"] = facts.experts->MaxOverMean();
    values["experts/entropy"] = facts.experts->Entropy();
    values["experts/idle"] = static_cast<double>(facts.experts->Idle());
  }
  if (predicted > 0) {
    values["speed/predicted_seconds"] = predicted;
  }
  tensorboard_->AddScalars(step.step, values);
}

// What the planner cannot price costs the prediction, not the run.
void RunReporter::StartPrediction(std::int64_t resumed_step) {
  prediction_ = nullptr;
  if (!prediction_context_) {
    return;
  }
  try {
    auto prediction = std::make_unique<PredictionReport>(config_, *prediction_context_, options_.run_folder);
    prediction->ReadEarlierSteps(resumed_step);
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
  const std::int64_t total = schedule.TotalSteps(trainer.progress());
  std::vector<PredictionReport::Stretch> remaining;
  std::int64_t consumed = trainer.progress().consumed_samples;
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
  Print(Labelled("expects", prediction_->Expectation(remaining, memory)));
}

void RunReporter::ReadEnergy() {
  std::vector<EnergyCounter> counters = ReadHostEnergy();
  for (EnergyCounter& gpu : ReadGpuEnergy()) {
    counters.push_back(std::move(gpu));
  }
  energy_.Add(counters);
}

// What cannot be priced or written costs the trace, not the run.
void RunReporter::WriteTrace() {
  TraceInput input{.config = config_, .memory = memory_, .predicted = {}};
  try {
    if (prediction_ != nullptr) {
      input.predicted = prediction_->Estimate(config_.batch.global);
    }
    ReplaceFile(options_.run_folder + "/trace.json", MergedTrace(options_.run_folder, input));
    Print(
        fmt::format("wrote {}/trace.json: open it in ui.perfetto.dev, or with `trireme report`", options_.run_folder));
  } catch (const Error& error) {
    Print(fmt::format("no trace is written: {}", error.what()));
  }
}

void RunReporter::Ended() {
  WriteWhatWaits();
  if (options_.trace && !options_.run_folder.empty()) {
    WriteTrace();
  }
  if (energy_.known() && energy_tokens_ > 0) {
    Print(
        fmt::format("energy of rank 0's machine, by its processors' and GPUs' counters: {:.1f} kJ, {:.4g} J per token",
                    energy_.joules() / 1e3, energy_.joules() / energy_tokens_));
  } else if (energy_tokens_ > 0) {
    Print("energy: not known, the hardware's counters cannot be read here");
  }
  if (const std::string summary = prediction_ != nullptr ? prediction_->Summary() : ""; !summary.empty()) {
    Print(summary);
  }
}

void RunReporter::StepDone(const StepFacts& facts) {
  const StepRates rates = RatesOf(config_, facts, peak_flops_);
  const double predicted = prediction_ != nullptr ? prediction_->Seconds(facts.result.global_batch) : 0;
  if (!paced_) {
    ReadEnergy();
    energy_tokens_ += static_cast<double>(facts.result.global_batch * config_.model.sequence);
  }
  if (metrics_ != nullptr) {
    StepContext context{.memory_bytes = memory_bytes_,
                        .predicted_seconds = predicted,
                        .joules = energy_.known() ? energy_.joules() : -1,
                        .causes = {}};
    if (by_cause_ && !facts.phases.phases.empty()) {
      context.causes = MeasuredCauses(facts.phases);
    }
    metrics_->Add(config_, facts, rates, context);
  }
  AddToTensorBoard(facts, rates, predicted);
  step_ = facts.result.step;
  const std::int64_t step = facts.result.step;
  if (step % options_.log_every == 0 || step == 1 || step == facts.total_steps || facts.result.skipped) {
    Print(LogLine(config_, facts, rates, predicted));
    if (config_.log.timers && by_cause_ && !facts.phases.phases.empty()) {
      Print(TimersLine(MeasuredCauses(facts.phases)));
    }
  }
  if (prediction_ != nullptr) {
    if (const std::string slow = prediction_->StepDone(facts, by_cause_); !slow.empty()) {
      Print(slow);
      Record("slow", slow);
    }
  }
  if (const std::string idle = facts.experts ? idle_experts_.Look(*facts.experts) : ""; !idle.empty()) {
    Print(idle);
    Record("experts", idle);
  }
  if (facts.result.skipped && !facts.result.overflowed) {
    Print(fmt::format("step {}: the loss or a gradient is not finite; no rank updated its weights", step));
  }
  if (options_.live && step < facts.total_steps) {
    ShowProgress(facts, rates, predicted);
  }
}

void RunReporter::ShowProgress(const StepFacts& facts, const StepRates& rates, double predicted) {
  const StepResult& step = facts.result;
  seconds_ = seconds_ == 0 ? step.seconds : 0.9 * seconds_ + 0.1 * step.seconds;
  const std::scoped_lock lock(console_);
  screen_.step = step.step;
  screen_.total_steps = facts.total_steps;
  screen_.losses.push_back(step.loss);
  screen_.seconds = seconds_;
  screen_.predicted_seconds = predicted;
  screen_.tokens_per_second = rates.tokens_per_second;
  screen_.share_of_peak = rates.share_of_peak;
  screen_.memory_bytes = static_cast<double>(memory_bytes_);
  const int width = TerminalWidth();
  const std::string text = StatusScreen(screen_, {.width = std::max(width - 1, 20), .colour = true, .events = 3});
  Put(EraseScreen() + text);
  screen_lines_ = static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

void RunReporter::Validated(std::int64_t step, double loss) {
  screen_.validation_loss = loss;
  if (metrics_ != nullptr) {
    metrics_->AddValidation(step, loss);
  }
  if (const std::scoped_lock lock(records_); tensorboard_ != nullptr) {
    tensorboard_->AddScalars(step, {{"loss/validation", loss}});
  }
  if (config_.log.format == LogFormat::kShort) {
    Print(fmt::format("validation loss at step {} | loss {:.4f} | perplexity {:.5g}", step, loss, std::exp(loss)));
    return;
  }
  Print(fmt::format("validation loss at iteration {} | lm loss value: {:.6E} | lm loss PPL: {:.6E} |", step, loss,
                    std::exp(loss)));
}

void RunReporter::HistogramsTaken(const StepHistograms& histograms) {
  const std::scoped_lock lock(records_);
  if (tensorboard_ == nullptr) {
    return;
  }
  std::map<std::string, Histogram> tagged;
  for (const auto& [name, histogram] : histograms.weights) {
    tagged["weights/" + name] = histogram;
  }
  for (const auto& [name, histogram] : histograms.gradients) {
    tagged["gradients/" + name] = histogram;
  }
  tensorboard_->AddHistograms(histograms.step, tagged);
}

void RunReporter::Evaluated(std::int64_t step, const std::string& task, const std::vector<TaskScore>& scores) {
  if (metrics_ != nullptr) {
    metrics_->AddEvaluation(step, task, scores);
  }
  std::string line = fmt::format("{} at step {}", task, step);
  std::map<std::string, double> values;
  for (const TaskScore& score : scores) {
    line += fmt::format(" | {} {:.4f}", score.name, score.value);
    values[fmt::format("evaluate/{}/{}", task, score.name)] = score.value;
  }
  if (const std::scoped_lock lock(records_); tensorboard_ != nullptr) {
    tensorboard_->AddScalars(step, values);
  }
  Print(line);
}

void RunReporter::MemoryMeasured(const std::vector<MemoryUse>& by_rank) {
  memory_ = by_rank;
  if (!options_.run_folder.empty()) {
    WriteMemory(by_rank);
  }
  for (const MemoryUse& use : by_rank) {
    memory_bytes_ = std::max(memory_bytes_, use.total());
  }
  Print(MemoryLines(by_rank));
}

// A copy for people, so a full disk costs it; a resume reads the checkpoint's.
void RunReporter::DeviceChose(const std::string& choices) {
  if (options_.run_folder.empty()) {
    return;
  }
  try {
    ReplaceFile(options_.run_folder + "/device_choices.txt", choices);
  } catch (const Error&) {
    // Nothing reads it but people.
  }
}

void RunReporter::Note(const std::string& message) {
  Print(message);
  Record(EventKind(message), message);
}

void RunReporter::Saving(std::int64_t step) { Record("save", fmt::format("checkpoint of step {}", step)); }

void RunReporter::Record(const std::string& kind, const std::string& text) {
  if (options_.live) {
    const std::scoped_lock lock(console_);
    screen_.events.push_back(fmt::format("step {}: {}", step_.load(), text));
  }
  if (!options_.run_folder.empty()) {
    const std::scoped_lock lock(events_);
    unwritten_.push_back(
        {.time = static_cast<double>(WallNanoseconds()) * 1e-9, .step = step_, .kind = kind, .text = text});
    WriteEvents();
  }
}

void RunReporter::WriteEvents() {
  while (!unwritten_.empty() && AppendEvent(options_.run_folder, unwritten_.front())) {
    unwritten_.pop_front();
  }
}

void RunReporter::WriteWhatWaits() {
  if (metrics_ != nullptr) {
    metrics_->Flush();
    if (const std::size_t lost = metrics_->waiting(); lost > 0) {
      Print(fmt::format("{} lines of metrics.jsonl are not on the disk", lost));
    }
  }
  const std::scoped_lock lock(events_);
  WriteEvents();
}

// memory.json: what ranks hold, with what was planned for their stages; a copy for people, so a full disk costs it.
void RunReporter::WriteMemory(const std::vector<MemoryUse>& by_rank) const {
  const auto kinds = [](const MemoryUse& use) {
    nlohmann::ordered_json value = nlohmann::ordered_json::object();
    for (int kind = 0; kind < kMemoryKinds; ++kind) {
      const auto memory = static_cast<MemoryKind>(kind);
      value[std::string(Name(memory))] = use[memory];
    }
    return value;
  };
  const ProcessGrid grid(config_.layout);
  nlohmann::ordered_json value = {{"measured", nlohmann::ordered_json::array()},
                                  {"planned", nlohmann::ordered_json::array()}};
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const int stage = grid.CoordinateOf(static_cast<int>(rank)).pipeline;
    value["measured"].push_back({{"rank", rank}, {"stage", stage}, {"kinds", kinds(by_rank[rank])}});
  }
  for (int stage = 0; stage < config_.layout.pipeline; ++stage) {
    const MemoryUse planned = MemoryOfStage(StageOfRun(config_, stage, config_.batch.global).description());
    value["planned"].push_back({{"stage", stage}, {"kinds", kinds(planned)}});
  }
  try {
    ReplaceFile(options_.run_folder + "/memory.json", JsonText(value, {.indent = 1}) + "\n");
  } catch (const Error&) {
    // The console has said the same.
  }
}

}  // namespace trireme
