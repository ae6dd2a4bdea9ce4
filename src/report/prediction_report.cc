#include "report/prediction_report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/durable_file.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/text_file.h"
#include "base/units.h"
#include "report/against_prediction.h"

namespace trireme {
namespace {

constexpr std::size_t kKept = 500;       // measured steps, the latest
constexpr std::int64_t kPreparing = 2;   // steps of a process that are slower than the rest
constexpr std::size_t kJudged = 8;       // measured steps before a run is called slow
constexpr double kMuchSlower = 1.25;     // of predicted, and beyond the interval
constexpr std::size_t kFirstSteps = 4;   // measured steps before a prediction may be made again
constexpr double kContradicted = 2;      // times as long, or as short, as predicted
constexpr std::int64_t kTail = 1 << 16;  // bytes of metrics.jsonl that are read again
constexpr std::int64_t kLargestPrediction = 64 << 20;

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string Duration(double seconds) {
  const std::int64_t whole = std::llround(seconds);
  if (whole >= 86'400) {
    return fmt::format("{:.1f} days", seconds / 86'400);
  }
  return fmt::format("{}:{:02d}:{:02d}", whole / 3600, whole / 60 % 60, whole % 60);
}

// Three digits, in seconds or milliseconds.
std::string Short(double seconds) {
  return seconds >= 1 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.3g} ms", seconds * 1e3);
}

// Seconds of the last steps up to `last` with `batch` samples.
std::vector<double> EarlierSeconds(const std::string& path, std::int64_t last, std::int64_t batch) {
  LineReader file(path);
  file.SkipTo(file.size() - kTail);
  std::vector<double> seconds;
  for (std::string line; file.Next(line);) {
    const nlohmann::json row = ParseJsonOrDiscard(line);
    const auto number = [&](const char* key) {
      return row.is_object() && row.contains(key) && row[key].is_number() ? row[key].get<double>() : -1;
    };
    if (number("step") >= 1 && number("step") <= static_cast<double>(last) && number("seconds") > 0 &&
        number("global_batch") == static_cast<double>(batch)) {
      seconds.push_back(number("seconds"));
    }
  }
  return seconds;
}

std::string FingerprintIn(const std::string& path) {
  nlohmann::json value;
  try {
    value = ParseJsonOrDiscard(ReadWholeFile(path, kLargestPrediction));
  } catch (const Error&) {
    return "";
  }
  return value.is_object() && value.contains("fingerprint") && value["fingerprint"].is_string()
             ? value["fingerprint"].get<std::string>()
             : "";
}

}  // namespace

PredictionReport::PredictionReport(const RunConfig& config, const PredictionContext& context,
                                   const std::string& run_folder)
    : config_(config), prediction_(config, context), run_folder_(run_folder) {}

void PredictionReport::ReadEarlierSteps(std::int64_t resumed_step) {
  if (run_folder_.empty()) {
    return;
  }
  const std::string path = run_folder_ + "/prediction.json";
  const std::string fingerprint = prediction_.fingerprint();
  if (resumed_step > 0 && FingerprintIn(path) == fingerprint) {
    const std::vector<double> seconds =
        EarlierSeconds(run_folder_ + "/metrics.jsonl", resumed_step, config_.batch.global);
    if (seconds.size() >= static_cast<std::size_t>(kPreparing) + 1) {
      prediction_.LearnFrom(config_.batch.global, Median(seconds), static_cast<std::int64_t>(seconds.size()));
    }
  }
  file_ = {{"fingerprint", fingerprint},
           {"knowledge", prediction_.knowledge()},
           {"global_batch", config_.batch.global},
           {"seconds", prediction_.Seconds(config_.batch.global)},
           {"low", prediction_.Low(config_.batch.global)},
           {"high", prediction_.High(config_.batch.global)}};
  const StepCauses causes = prediction_.Causes(config_.batch.global);
  for (const CauseField& field : CauseFields()) {
    file_["causes"][field.name] = causes.*field.member;
  }
  WriteFile();
}

void PredictionReport::WriteFile() const {
  if (run_folder_.empty()) {
    return;
  }
  try {
    ReplaceFile(run_folder_ + "/prediction.json", JsonText(file_, {.indent = 2}) + "\n");
  } catch (const Error&) {
    // A copy for people, on a disk that may be full: the run says the same on its console.
  }
}

std::string PredictionReport::Expectation(const std::vector<Stretch>& remaining, std::int64_t memory_bytes) {
  double seconds = 0;
  std::int64_t steps = 0;
  for (const Stretch& stretch : remaining) {
    seconds += prediction_.Seconds(stretch.global_batch) * static_cast<double>(stretch.steps);
    steps += stretch.steps;
  }
  const std::int64_t batch = config_.batch.global;
  const double tokens = static_cast<double>(batch * config_.model.sequence) / prediction_.Seconds(batch);
  std::string text =
      fmt::format("{} per step ({} to {}), {:.0f} tokens/s, {} on the fullest rank", Short(prediction_.Seconds(batch)),
                  Short(prediction_.Low(batch)), Short(prediction_.High(batch)), tokens, HumanBytes(memory_bytes));
  if (steps > 0) {
    const auto end = std::time(nullptr) + static_cast<std::time_t>(seconds);
    text += fmt::format(", {} steps in {} (until {:%Y-%m-%d %H:%M})", steps, Duration(seconds), fmt::localtime(end));
  }
  return text + "; from " + prediction_.knowledge();
}

std::string PredictionReport::StepDone(const StepFacts& facts, bool by_cause) {
  const StepResult& step = facts.result;
  if (step.global_batch != batch_) {
    batch_ = step.global_batch;
    seconds_.clear();
    causes_.clear();
  }
  if (++seen_ <= kPreparing || step.skipped) {
    return "";
  }
  if (seconds_.size() == kKept) {
    seconds_.erase(seconds_.begin());
    causes_.erase(causes_.begin(), causes_.begin() + (causes_.empty() ? 0 : 1));
  }
  seconds_.push_back(step.seconds);
  if (by_cause && !facts.phases.phases.empty()) {
    causes_.push_back(MeasuredCauses(facts.phases));
  }
  if (complained_ || seconds_.size() < kFirstSteps) {
    return "";
  }
  const double predicted = prediction_.Seconds(batch_);
  const double measured = Median(seconds_);
  const bool contradicted = measured > kContradicted * predicted || measured < predicted / kContradicted;
  const bool much_slower =
      seconds_.size() >= kJudged && measured >= kMuchSlower * predicted && measured >= prediction_.High(batch_);
  complained_ = contradicted || much_slower;
  return complained_ ? fmt::format("{}: {} per step, expected {} from {}{}{}", AgainstPrediction(measured, predicted),
                                   Short(measured), Short(predicted), prediction_.knowledge(), LargestExcess(),
                                   contradicted ? PredictAgain(step.step) : "")
                     : "";
}

std::string PredictionReport::PredictAgain(std::int64_t step) {
  const auto [low, high] = std::minmax_element(seconds_.begin(), seconds_.end());
  file_["again"] = {
      {"step", step}, {"global_batch", batch_}, {"seconds", Median(seconds_)}, {"low", *low}, {"high", *high}};
  WriteFile();
  return fmt::format("; measured again by {} steps: {} to {} per step from now on", seconds_.size(), Short(*low),
                     Short(*high));
}

StepCauses PredictionReport::MedianCauses() const {
  StepCauses medians;
  for (const CauseField& field : CauseFields()) {
    std::vector<double> values;
    for (const StepCauses& causes : causes_) {
      values.push_back(causes.*field.member);
    }
    medians.*field.member = Median(values);
  }
  return medians;
}

std::string PredictionReport::LargestExcess() {
  if (causes_.empty()) {
    return "";
  }
  const StepCauses measured = MedianCauses();
  const StepCauses predicted = prediction_.Causes(batch_);
  const CauseField& most =
      *std::max_element(CauseFields().begin(), CauseFields().end(), [&](const CauseField& a, const CauseField& b) {
        return measured.*a.member - predicted.*a.member < measured.*b.member - predicted.*b.member;
      });
  return fmt::format("; most of it in {}: {} against {}", most.name, Short(measured.*most.member),
                     Short(predicted.*most.member));
}

std::string PredictionReport::CausesText() {
  if (causes_.empty()) {
    return "";
  }
  const StepCauses measured = MedianCauses();
  const StepCauses predicted = prediction_.Causes(batch_);
  std::string text;
  for (const CauseField& field : CauseFields()) {
    const double largest = std::max(measured.*field.member, predicted.*field.member);
    if (largest >= 0.005 * measured.total()) {
      text += fmt::format("{} {} {}/{}", text.empty() ? "" : ",", field.name, Short(predicted.*field.member),
                          Short(measured.*field.member));
    }
  }
  return "\n  by cause, predicted/measured on rank 0:" + text;
}

std::string PredictionReport::Summary() {
  if (seconds_.empty()) {
    return "";
  }
  const double predicted = prediction_.Seconds(batch_);
  const double measured = Median(seconds_);
  return fmt::format("predicted {} per step, measured {} (median of {}): {}; from {}{}", Short(predicted),
                     Short(measured), seconds_.size(), AgainstPrediction(measured, predicted), prediction_.knowledge(),
                     CausesText());
}

}  // namespace trireme
