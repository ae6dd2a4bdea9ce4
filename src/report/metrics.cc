#include "report/metrics.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace trireme {
namespace {

// JSON has no NaN: a non-finite number becomes null.
nlohmann::json Number(double value) { return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr); }

void DropAfter(const std::string& path, std::int64_t step) {
  std::ifstream in(path);
  if (!in) {
    return;
  }
  const std::string kept_path = path + ".tmp";
  std::ofstream kept(kept_path);
  std::string line;
  while (std::getline(in, line)) {
    const nlohmann::json row = nlohmann::json::parse(line, nullptr, false);
    if (row.is_object() && row.contains("step") && row["step"].is_number_integer() &&
        row["step"].get<std::int64_t>() <= step) {
      kept << line << '\n';
    }
  }
  kept.close();
  std::filesystem::rename(kept_path, path);
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
