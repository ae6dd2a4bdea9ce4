#include "report/metrics.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"

namespace trireme {
namespace {

// JSON has no NaN: a non-finite number becomes null.
nlohmann::json Number(double value) { return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr); }

bool IsKept(std::string_view line, std::int64_t step) {
  if (!line.ends_with('\n')) {
    return false;
  }
  const nlohmann::json row = nlohmann::json::parse(line, nullptr, false);
  return row.is_object() && row.contains("step") && row["step"].is_number_integer() &&
         row["step"].get<std::int64_t>() <= step;
}

// Where the last line to be kept ends. Lines are in the order of their steps: looking for it from the end makes what a
// restart costs depend on the steps that were lost, not on those of the whole run.
std::int64_t EndOfKept(std::ifstream& file, std::int64_t size, std::int64_t step) {
  constexpr std::int64_t kBlock = 1 << 16;
  std::string text;  // of the lines that were not looked at, from `position` on
  for (std::int64_t position = size; position > 0;) {
    std::string block(static_cast<std::size_t>(std::min(kBlock, position)), '\0');
    position -= static_cast<std::int64_t>(block.size());
    Require(file.seekg(position) && file.read(block.data(), static_cast<std::streamsize>(block.size())),
            "metrics.jsonl cannot be read at byte {} of {}", position, size);
    text.insert(0, block);
    while (!text.empty()) {
      const std::size_t before = text.size() > 1 ? text.rfind('\n', text.size() - 2) : std::string::npos;
      if (before == std::string::npos && position > 0) {
        break;  // the line began in an earlier block
      }
      const std::size_t begin = before == std::string::npos ? 0 : before + 1;
      if (IsKept(std::string_view(text).substr(begin), step)) {
        return position + static_cast<std::int64_t>(text.size());
      }
      text.resize(begin);
    }
  }
  return 0;
}

void DropAfter(const std::string& path, std::int64_t step) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) {
    return;
  }
  const auto size = static_cast<std::int64_t>(file.tellg());
  const std::int64_t kept = EndOfKept(file, size, step);
  if (kept < size) {
    std::filesystem::resize_file(path, static_cast<std::uintmax_t>(kept));
  }
}

}  // namespace

MetricsFile::MetricsFile(const std::string& run_folder, std::int64_t resumed_step)
    : path_(run_folder + "/metrics.jsonl") {
  DropAfter(path_, resumed_step);
  file_ = std::fopen(path_.c_str(), "a");
  Require(file_ != nullptr, "{} cannot be written", path_);
}

MetricsFile::~MetricsFile() { std::fclose(file_); }

void MetricsFile::Add(const RunConfig& config, const StepFacts& facts, const StepRates& rates,
                      std::int64_t memory_bytes) {
  const StepResult& step = facts.result;
  nlohmann::ordered_json row = {{"step", step.step},
                                {"loss", Number(step.loss)},
                                {"grad_norm", Number(step.gradient_norm)},
                                {"learning_rate", step.learning_rate},
                                {"global_batch", step.global_batch},
                                {"consumed_samples", step.consumed_samples},
                                {"consumed_tokens", step.consumed_samples * config.model.sequence},
                                {"seconds", step.seconds},
                                {"samples_per_second", rates.samples_per_second},
                                {"tokens_per_second", rates.tokens_per_second},
                                {"tflops", rates.tflops},
                                {"model_tflops", rates.model_tflops},
                                {"loss_scale", 1.0},
                                {"skipped", step.skipped},
                                {"memory_bytes", memory_bytes}};
  if (config.train.count_zeros) {
    row["num_zeros"] = step.zeros;
  }
  Write(row.dump());
}

void MetricsFile::AddValidation(std::int64_t step, double loss) {
  Write(nlohmann::ordered_json{{"step", step}, {"validation_loss", Number(loss)}}.dump());
}

void MetricsFile::Write(const std::string& line) {
  std::fputs((line + "\n").c_str(), file_);
  std::fflush(file_);
}

}  // namespace trireme
