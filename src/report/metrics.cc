#include "report/metrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json_text.h"

namespace trireme {
namespace {

// JSON has no NaN: a non-finite number becomes null.
nlohmann::json Number(double value) { return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr); }

bool IsKept(std::string_view line, std::int64_t step) {
  if (!line.ends_with('\n')) {
    return false;
  }
  const nlohmann::json row = ParseJsonOrDiscard(line);
  return row.is_object() && row.contains("step") && row["step"].is_number_integer() &&
         row["step"].get<std::int64_t>() <= step;
}

// Where the last line to be kept ends. Lines are in the order of their steps: looking for it from the end makes what a
// restart costs depend on the steps that were lost, not on those of the whole run.
std::int64_t EndOfKept(int file, std::int64_t size, std::int64_t step) {
  constexpr std::int64_t kBlock = 1 << 16;
  std::string text;  // of the lines that were not looked at, from `position` on
  for (std::int64_t position = size; position > 0;) {
    std::string block(static_cast<std::size_t>(std::min(kBlock, position)), '\0');
    position -= static_cast<std::int64_t>(block.size());
    Require(::pread(file, block.data(), block.size(), position) == static_cast<ssize_t>(block.size()),
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

// A regular file, opened to append; symbolic links are not followed.
int OpenToAppend(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
  Require(file >= 0, "'{}' cannot be written: {}", path,
          errno == ELOOP ? "it is a symbolic link, which a run does not follow" : std::strerror(errno));
  struct stat about {};
  if (::fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
    ::close(file);
    Fail("'{}' cannot be written: it is no regular file", path);
  }
  return file;
}

void DropAfter(int file, std::int64_t step) {
  struct stat about {};
  ::fstat(file, &about);
  const std::int64_t kept = EndOfKept(file, about.st_size, step);
  Require(kept == about.st_size || ::ftruncate(file, kept) == 0, "metrics.jsonl cannot be cut to {} bytes: {}", kept,
          std::strerror(errno));
}

}  // namespace

MetricsFile::MetricsFile(const std::string& run_folder, std::int64_t resumed_step,
                         std::function<void(const std::string&)> message)
    : path_(run_folder + "/metrics.jsonl"), message_(std::move(message)), file_(OpenToAppend(path_)) {
  DropAfter(file_.descriptor(), resumed_step);
}

void MetricsFile::GoBack(std::int64_t step) {
  file_.set_file(OpenToAppend(path_));  // the run's folder may have been made anew
  DropAfter(file_.descriptor(), step);
  const std::deque<std::string> waiting = file_.waiting();
  file_.DropWaiting();
  for (const std::string& line : waiting) {
    if (IsKept(line + "\n", step)) {
      Write(line);
    }
  }
}

void MetricsFile::Add(const RunConfig& config, const StepFacts& facts, const StepRates& rates,
                      const StepContext& context) {
  const StepResult& step = facts.result;
  nlohmann::ordered_json row = {
      {"step", step.step},
      {"loss", Number(step.loss)},
      {"grad_norm", Number(step.gradient_norm)},
      {"learning_rate", step.learning_rate},
      {"global_batch", step.global_batch},
      {"consumed_samples", step.consumed_samples},
      {"consumed_tokens", step.consumed_tokens},
      {"seconds", step.seconds},
      {"predicted_seconds",
       context.predicted_seconds > 0 ? nlohmann::json(context.predicted_seconds) : nlohmann::json(nullptr)},
      {"samples_per_second", rates.samples_per_second},
      {"tokens_per_second", rates.tokens_per_second},
      {"tflops", rates.tflops},
      {"model_tflops", rates.model_tflops},
      {"skipped", step.skipped},
      {"memory_bytes", context.memory_bytes}};
  if (context.joules >= 0) {
    row["joules"] = context.joules;
  }
  if (rates.share_of_peak > 0) {
    row["share_of_peak"] = rates.share_of_peak;
  }
  if (context.causes) {
    for (const CauseField& field : CauseFields()) {
      row["causes"][field.name] = *context.causes.*field.member;
    }
  }
  if (config.train.dtype == "fp16") {
    row["loss_scale"] = step.loss_scale;
  }
  if (step.balance) {
    row["data_rank_imbalance"] = step.balance->data_ranks;
    row["micro_batch_imbalance"] = step.balance->micro_batches;
  }
  if (facts.experts) {
    row["expert_load"] = {{"max_over_mean", facts.experts->MaxOverMean()},
                          {"entropy", facts.experts->Entropy()},
                          {"idle", facts.experts->Idle()}};
  }
  if (config.train.count_zeros) {
    row["num_zeros"] = step.zeros;
  }
  Write(JsonText(row));
}

void MetricsFile::AddValidation(std::int64_t step, double loss) {
  Write(JsonText(nlohmann::ordered_json{{"step", step}, {"validation_loss", Number(loss)}}));
}

void MetricsFile::AddEvaluation(std::int64_t step, const std::string& task, const std::vector<TaskScore>& scores) {
  nlohmann::ordered_json row = {{"step", step}, {"task", task}};
  for (const TaskScore& score : scores) {
    row["scores"][score.name] = Number(score.value);
  }
  Write(JsonText(row));
}

void MetricsFile::Write(const std::string& line) { Tell(file_.Add(line)); }

void MetricsFile::Flush() { Tell(file_.Flush()); }

void MetricsFile::Tell(int reason) {
  if (reason != 0 && !told_ && message_) {
    told_ = true;
    message_(fmt::format("'{}' cannot be written: {}; its lines are kept in memory until it can", path_,
                         std::strerror(reason)));
  }
}

}  // namespace trireme
