#include "infer/task_files.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "checkpoint/tools/tokenizer_places.h"
#include "data/files/json_file.h"
#include "infer/evaluate.h"
#include "infer/model_files.h"
#include "infer/multiple_choice.h"

namespace trireme {
namespace {

constexpr std::int64_t kLargestTaskText = std::int64_t{1} << 28;

std::vector<std::string> FilesOf(const std::string& list) {
  std::vector<std::string> files;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t comma = std::min(list.find(',', begin), list.size());
    const std::size_t first = std::min(list.find_first_not_of(" \t", begin), comma);
    const std::size_t last = list.find_last_not_of(" \t", comma == 0 ? 0 : comma - 1);
    Require(first < comma, "evaluate.tasks = '{}' names an empty file; give files with one comma between two", list);
    files.push_back(list.substr(first, last + 1 - first));
    begin = comma + 1;
  }
  return files;
}

// `tokens` to a whole sequence: what is added at the end changes nothing before it, and weighs nothing.
Sample WholeSequence(std::vector<std::int32_t> tokens, std::size_t counted, std::size_t sequence) {
  Sample sample;
  sample.weights.assign(sequence, 0.0F);
  std::fill_n(sample.weights.begin() + static_cast<std::ptrdiff_t>(tokens.size() - 1 - counted), counted, 1.0F);
  tokens.resize(sequence + 1, 0);
  sample.tokens = std::move(tokens);
  return sample;
}

EvaluationTask ChoiceTask(const std::string& path, const RunConfig& config, const Tokenizer& tokenizer) {
  auto questions = std::make_shared<std::vector<Question>>(ReadQuestions(path));
  if (config.evaluate.samples > 0 && std::cmp_less(config.evaluate.samples, questions->size())) {
    questions->resize(static_cast<std::size_t>(config.evaluate.samples));
  }
  const auto sequence = static_cast<std::size_t>(config.model.sequence);
  EvaluationTask task{.apart = true};
  auto answers = std::make_shared<std::vector<std::size_t>>();
  for (const Question& question : *questions) {
    for (const std::string& choice : question.choices) {
      ChoiceRequest request = MakeRequest(question, choice, tokenizer, sequence);
      answers->push_back(request.answer);
      task.samples.push_back(WholeSequence(std::move(request.tokens), request.answer, sequence));
    }
  }
  task.judge = [questions, answers](const std::vector<double>& losses) -> std::vector<TaskScore> {
    std::vector<double> scores(losses.size());
    std::transform(losses.begin(), losses.end(), scores.begin(), [](double loss) { return -loss; });
    const ChoiceReport report = JudgeChoices(*questions, *answers, scores);
    return {{"acc", report.accuracy}, {"acc_norm", report.normalised_accuracy}, {"gold_loss", report.gold_loss}};
  };
  return task;
}

EvaluationTask TextTask(const std::string& path, const RunConfig& config, const Tokenizer& tokenizer) {
  const TextWindows windows(tokenizer.Encode(ReadBoundedFile(path, kLargestTaskText)), config.model.sequence);
  const std::int64_t count =
      config.evaluate.samples > 0 ? std::min(config.evaluate.samples, windows.count()) : windows.count();
  EvaluationTask task;
  LossReport report{.samples = count};
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<std::int32_t> tokens = windows.Get(i).tokens;
    std::vector<std::int32_t> read;
    std::copy_if(tokens.begin() + 1, tokens.end(), std::back_inserter(read),
                 [&](std::int32_t token) { return !tokenizer.IsSpecial(token); });
    report.bytes += static_cast<std::int64_t>(tokenizer.Decode(read).size());
    const std::size_t targets = tokens.size() - 1;
    report.weight += static_cast<double>(targets);
    task.samples.push_back(WholeSequence(std::move(tokens), targets, static_cast<std::size_t>(config.model.sequence)));
  }
  task.judge = [report](const std::vector<double>& losses) -> std::vector<TaskScore> {
    LossReport own = report;
    own.loss = losses.front() / own.weight;
    return {{"loss", own.loss}, {"bits_per_byte", own.bits_per_byte()}};
  };
  return task;
}

}  // namespace

std::vector<EvaluationTask> OpenTasks(const RunConfig& config) {
  std::vector<EvaluationTask> tasks;
  if (config.evaluate.tasks.empty()) {
    return tasks;
  }
  const ModelFiles files{.model = config.model, .tokenizer = FindTokenizerOf(config)};
  const std::unique_ptr<Tokenizer> tokenizer = LoadModelTokenizer(files, config.evaluate.tokenizer);
  for (const std::string& path : FilesOf(config.evaluate.tasks)) {
    const bool questions = path.ends_with(".jsonl");
    tasks.push_back(questions ? ChoiceTask(path, config, *tokenizer) : TextTask(path, config, *tokenizer));
    tasks.back().name = std::filesystem::path(path).stem().string();
  }
  return tasks;
}

}  // namespace trireme
