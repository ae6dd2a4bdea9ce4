#include "report/run_record.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/durable_file.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/text_file.h"
#include "model/parameter_table.h"
#include "run/run_config.h"

namespace trireme {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kCausesKept = 500;
constexpr std::int64_t kLargestJson = 64 << 20;

double NumberIn(const nlohmann::json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number() ? found->get<double>() : kNothing;
}

nlohmann::json ReadJson(const std::string& path) {
  try {
    return ParseJsonOrDiscard(ReadWholeFile(path, kLargestJson));
  } catch (const Error&) {
    return nullptr;
  }
}

void AddStep(const nlohmann::json& row, RunRecord& run) {
  MetricColumns& columns = run.metrics;
  const double hours = columns.hours.empty() ? 0 : columns.hours.back();
  for (const MetricColumn& column : MetricColumnsOfSteps()) {
    (columns.*column.member).push_back(NumberIn(row, column.name));
  }
  columns.tokens.back() = NumberIn(row, "consumed_tokens");
  columns.hours.back() = hours + (std::isfinite(columns.seconds.back()) ? columns.seconds.back() / 3600 : 0);
  if (const auto causes = row.find("causes"); causes != row.end() && causes->is_object()) {
    StepCauses read;
    for (const CauseField& field : CauseFields()) {
      const double seconds = NumberIn(*causes, field.name);
      read.*field.member = std::isfinite(seconds) ? seconds : 0;
    }
    if (run.causes.size() == 2 * kCausesKept) {
      run.causes.erase(run.causes.begin(), run.causes.begin() + kCausesKept);
    }
    run.causes.push_back(read);
  }
}

void ReadConfig(const std::string& path, RunRecord& run) {
  try {
    const Recipe recipe = ParseRecipe(ReadWholeFile(path, 1 << 20), path, {});
    for (const KeyValue& entry : Flatten(recipe.config)) {
      run.config[entry.key] = entry.value;
    }
    run.total_steps = TotalSteps(recipe.config);
    run.ranks = recipe.config.layout.ranks();
    run.layout = fmt::format("{}, batch {}, {}", recipe.config.layout.ToString(), recipe.config.batch.global,
                             recipe.config.train.dtype);
    run.parameters = ParameterCount(recipe.config.model);
  } catch (const Error&) {
    // A file of another version: the rest of the folder is still worth showing.
  }
}

void ReadPrediction(const nlohmann::json& value, RunRecord& run) {
  if (!value.is_object()) {
    return;
  }
  const auto number = [&](const char* key) {
    const double read = NumberIn(value, key);
    return std::isfinite(read) ? read : 0;
  };
  run.predicted_seconds = number("seconds");
  run.predicted_low = number("low");
  run.predicted_high = number("high");
  if (const auto text = value.find("knowledge"); text != value.end() && text->is_string()) {
    run.knowledge = text->get<std::string>();
  }
  if (const auto causes = value.find("causes"); causes != value.end() && causes->is_object()) {
    for (const CauseField& field : CauseFields()) {
      if (const double seconds = NumberIn(*causes, field.name); std::isfinite(seconds)) {
        run.predicted_causes[field.name] = seconds;
      }
    }
  }
}

std::vector<MemoryRow> MemoryRows(const nlohmann::json& value, const char* key) {
  std::vector<MemoryRow> rows;
  if (!value.is_object() || !value.contains(key) || !value[key].is_array()) {
    return rows;
  }
  for (const nlohmann::json& one : value[key]) {
    if (!one.is_object() || !one.contains("kinds") || !one["kinds"].is_object()) {
      continue;
    }
    const double rank = NumberIn(one, "rank");
    const double stage = NumberIn(one, "stage");
    MemoryRow row{.rank = std::isfinite(rank) ? static_cast<int>(rank) : -1,
                  .stage = std::isfinite(stage) ? static_cast<int>(stage) : 0,
                  .kinds = {}};
    for (const auto& [kind, bytes] : one["kinds"].items()) {
      if (bytes.is_number()) {
        row.kinds[kind] = bytes.get<double>();
      }
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

const std::vector<MetricColumn>& MetricColumnsOfSteps() {
  static const std::vector<MetricColumn> kColumns = {{"step", &MetricColumns::step},
                                                     {"tokens", &MetricColumns::tokens},
                                                     {"hours", &MetricColumns::hours},
                                                     {"seconds", &MetricColumns::seconds},
                                                     {"loss", &MetricColumns::loss},
                                                     {"grad_norm", &MetricColumns::grad_norm},
                                                     {"learning_rate", &MetricColumns::learning_rate},
                                                     {"tokens_per_second", &MetricColumns::tokens_per_second},
                                                     {"global_batch", &MetricColumns::global_batch},
                                                     {"memory_bytes", &MetricColumns::memory_bytes},
                                                     {"predicted_seconds", &MetricColumns::predicted_seconds},
                                                     {"tflops", &MetricColumns::tflops},
                                                     {"model_tflops", &MetricColumns::model_tflops},
                                                     {"share_of_peak", &MetricColumns::share_of_peak}};
  return kColumns;
}

double MedianOf(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) {
    return kNothing;
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) {
    return *middle;
  }
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double RunRecord::MedianSeconds() const {
  const std::size_t prepared = metrics.seconds.size() > 4 ? 2 : 0;
  const double median =
      MedianOf({metrics.seconds.begin() + static_cast<std::ptrdiff_t>(prepared), metrics.seconds.end()});
  return std::isfinite(median) ? median : 0;
}

std::map<std::string, double> RunRecord::MedianCauses() const {
  std::map<std::string, double> medians;
  const std::size_t prepared = causes.size() > 4 ? 2 : 0;
  for (const CauseField& field : CauseFields()) {
    std::vector<double> values;
    for (std::size_t i = prepared; i < causes.size(); ++i) {
      values.push_back(causes[i].*field.member);
    }
    if (!values.empty()) {
      medians[field.name] = MedianOf(std::move(values));
    }
  }
  return medians;
}

bool IsRunFolder(const std::string& path) {
  std::error_code status;
  return std::filesystem::is_regular_file(path + "/metrics.jsonl", status) ||
         std::filesystem::is_regular_file(path + "/run.toml", status);
}

std::vector<std::string> RunFoldersOf(const std::string& path) {
  std::error_code status;
  if (IsRunFolder(path)) {
    return {path};
  }
  Require(std::filesystem::is_directory(path, status), "'{}' is no folder of a run", path);
  std::vector<std::string> runs;
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(path, status)) {
    if (entry.is_directory(status) && IsRunFolder(entry.path().string())) {
      runs.push_back(entry.path().string());
    }
  }
  Require(!runs.empty(), "'{}' holds no run: a run has metrics.jsonl or run.toml", path);
  std::sort(runs.begin(), runs.end());
  return runs;
}

std::string NameOfRun(const std::string& folder) {
  const std::filesystem::path path = std::filesystem::path(folder).lexically_normal();
  return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
}

void AddMetricsLine(const std::string& line, RunRecord& run) {
  const nlohmann::json row = ParseJsonOrDiscard(line);
  const double step = row.is_object() ? NumberIn(row, "step") : kNothing;
  if (!std::isfinite(step)) {
    return;
  }
  if (row.contains("validation_loss")) {
    run.metrics.validation_step.push_back(step);
    run.metrics.validation_loss.push_back(NumberIn(row, "validation_loss"));
  } else if (row.contains("task")) {
    return;  // of evaluate.tasks
  } else if (run.metrics.step.empty() || step > run.metrics.step.back()) {
    AddStep(row, run);
  }
}

void ReadRunFacts(const std::string& folder, RunRecord& run) {
  run.config.clear();
  run.predicted_causes.clear();
  ReadConfig(folder + "/run.toml", run);
  run.events = ReadEvents(folder);
  const nlohmann::json memory = ReadJson(folder + "/memory.json");
  run.measured_memory = MemoryRows(memory, "measured");
  run.planned_memory = MemoryRows(memory, "planned");
  ReadPrediction(ReadJson(folder + "/prediction.json"), run);
  const nlohmann::json machine = ReadJson(folder + "/machine.json");
  run.machine = machine.is_object() ? JsonText(machine) : "";
}

RunRecord ReadRun(const std::string& folder) {
  Require(IsRunFolder(folder), "'{}' is no folder of a run: it has neither metrics.jsonl nor run.toml", folder);
  RunRecord run;
  run.path = folder;
  run.name = NameOfRun(folder);
  LineReader file(folder + "/metrics.jsonl");
  for (std::string line; file.Next(line);) {
    AddMetricsLine(line, run);
  }
  ReadRunFacts(folder, run);
  std::error_code status;
  if (std::filesystem::exists(folder + "/trace.json", status)) {
    run.timelines = ReadTrace(folder + "/trace.json");
  }
  return run;
}

}  // namespace trireme
