#include "planner/queries/ramp.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "planner/queries/layout_words.h"

namespace trireme {
namespace {

Candidate BestFor(const SearchRequest& request, std::int64_t batch) {
  SearchRequest small = request;
  small.config.batch.global = batch;
  small.ramp_unit = 0;
  small.keep = 1;
  const SearchResult found = Search(small);
  return found.ranked.empty() ? Candidate{} : found.ranked.front();
}

}  // namespace

void RequireRamp(const BatchConfig& batch) {
  Require(batch.ramp_start > 0 && batch.ramp_increment > 0 && batch.ramp_samples > 0,
          "a ramp needs a start, an increment and samples above 0, not {}, {} and {}", batch.ramp_start,
          batch.ramp_increment, batch.ramp_samples);
  Require(batch.ramp_start <= batch.global && (batch.global - batch.ramp_start) % batch.ramp_increment == 0,
          "a ramp from {} by {} never meets the global batch {}", batch.ramp_start, batch.ramp_increment, batch.global);
  const std::int64_t steps = (batch.global - batch.ramp_start) / batch.ramp_increment;
  constexpr std::int64_t kMostSizes = 10'000;
  Require(steps <= kMostSizes, "a ramp of {} batch sizes is too fine; the most is {}", steps, kMostSizes);
}

RampPlan PriceRamp(const SearchRequest& request, const BatchConfig& batch, const ParallelLayout& layout) {
  RequireRamp(batch);
  RampPlan plan;
  plan.filling_batch = static_cast<std::int64_t>(layout.pipeline) * layout.micro_batch * layout.data;
  const std::int64_t steps = (batch.global - batch.ramp_start) / batch.ramp_increment;
  for (std::int64_t step = 0; step < steps; ++step) {
    RampRow row;
    row.batch = batch.ramp_start + step * batch.ramp_increment;
    row.samples = static_cast<double>(batch.ramp_samples) / static_cast<double>(steps);
    SearchRequest at = request;
    at.config.batch.global = row.batch;
    at.ramp_unit = 0;
    row.divides = row.batch % (static_cast<std::int64_t>(layout.micro_batch) * layout.data) == 0;
    if (row.divides) {
      try {
        row.fixed = Price(at, layout);
      } catch (const Error&) {
        row.divides = false;  // its schedule refuses so few micro batches
      }
    }
    row.best = BestFor(request, row.batch);
    const double count = row.samples / static_cast<double>(row.batch);
    plan.fixed_seconds += row.divides ? count * row.fixed.seconds : 0;
    plan.best_seconds += count * row.best.seconds;
    plan.rows.push_back(row);
  }
  return plan;
}

std::string ToText(const RampPlan& plan) {
  std::string text = fmt::format("{:>8} {:>10} {:>12} {:>9}   {:>12}  {}\n", "batch", "steps", "s, one layout",
                                 "TFLOP/s", "s, best", "best layout for this batch");
  std::string last;
  for (const RampRow& row : plan.rows) {
    const std::string layout = row.best.seconds > 0 ? NamedLayout(row.best.layout) : "none fits";
    const std::string fixed = row.divides
                                  ? fmt::format("{:>12.2f} {:>9.1f}", row.fixed.seconds, row.fixed.hardware_tflops)
                                  : fmt::format("{:>22}", "does not divide");
    text += fmt::format("{:>8} {:>10.0f} {}   {:>12.2f}  {}\n", row.batch, row.samples / static_cast<double>(row.batch),
                        fixed, row.best.seconds, layout == last ? "(same)" : layout);
    last = layout;
  }
  text += fmt::format(
      "whole ramp: {:.2f} days with one layout, {:.2f} with the best for each batch; the batch that fills "
      "the pipeline is {}\n",
      plan.fixed_seconds / 86'400, plan.best_seconds / 86'400, plan.filling_batch);
  return text;
}

std::string StagesOf(const RampPlan& plan, const SearchRequest& request, const ParallelLayout& layout) {
  const auto keys = [&](std::int64_t batch, const ParallelLayout& own) {
    RunConfig config;
    config.model = request.config.model;
    config.layout = own;
    config.batch.global = batch;
    return Flatten(config);
  };
  const std::vector<KeyValue> last = keys(request.config.batch.global, layout);
  std::string stages;
  double end = 0;
  for (const RampRow& row : plan.rows) {
    end += row.samples;
    if (row.best.seconds <= 0 || std::llround(end) == 0) {
      continue;
    }
    stages += fmt::format("{}{}: ", stages.empty() ? "" : "; ", std::llround(end));
    const std::vector<KeyValue> own = keys(row.batch, row.best.layout);
    std::string settings;
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (own[i].value != last[i].value) {
        std::string word = own[i].value;
        std::erase(word, '"');  // the list itself is a text of a recipe
        settings += fmt::format("{}{}={}", settings.empty() ? "" : ", ", own[i].key, word);
      }
    }
    stages += settings;
  }
  return stages;
}

std::vector<ConstantBatchSpan> StretchesOf(const RampPlan& plan, const Candidate& full, const BatchConfig& batch,
                                           double samples) {
  std::vector<ConstantBatchSpan> stretches;
  double left = samples;
  for (const RampRow& row : plan.rows) {
    const double here = std::min(row.samples, left);
    const double seconds = row.divides ? row.fixed.seconds : row.best.seconds;
    if (here > 0 && seconds > 0) {
      stretches.push_back({.samples = here, .global_batch = static_cast<double>(row.batch), .step_seconds = seconds});
      left -= here;
    }
  }
  if (left > 0) {
    stretches.push_back(
        {.samples = left, .global_batch = static_cast<double>(batch.global), .step_seconds = full.seconds});
  }
  return stretches;
}

}  // namespace trireme
