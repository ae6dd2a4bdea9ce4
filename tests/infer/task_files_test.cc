// Scores that a run computes while it trains: equal under every layout, and those of `trireme evaluate`.
#include "infer/task_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "base/error.h"
#include "comm/rank_runner.h"
#include "infer/evaluate.h"
#include "infer/multiple_choice.h"
#include "infer/small_model.h"
#include "message_of.h"
#include "operate/training_loop.h"

namespace trireme {
namespace {

using Scores = std::map<std::string, double>;

class ScoreWatcher : public TrainingObserver {
 public:
  void Evaluated(std::int64_t step, const std::string& task, const std::vector<TaskScore>& scores) override {
    for (const TaskScore& score : scores) {
      scores_[fmt::format("{} {} {}", step, task, score.name)] = score.value;
    }
  }
  const Scores& scores() const { return scores_; }

 private:
  Scores scores_;
};

RunConfig TaskRun(const ScratchDirectory& files) {
  RunConfig config = SmallModel("gpt2");
  config.model.vocabulary = 256;
  config.model.sequence = 24;
  config.validation.every = 0;
  const std::string questions = files / "choices.jsonl";
  std::ofstream(questions) << R"({"query": "to be or", "choices": ["not", "knot to be"], "gold": 0})" << '\n'
                           << R"({"ctx": "one two", "endings": ["three", "3", "four"], "label": "1"})" << '\n'
                           << R"({"question": "a", "choices": ["b", "c"], "answer": "B"})" << '\n';
  const std::string text = files / "text.txt";
  std::ofstream(text) << "It was the best of times, it was the worst of times, it was the age of wisdom.";
  config.evaluate = {.tasks = questions + ", " + text, .every = 4, .steps = "1", .samples = 0, .tokenizer = ""};
  return config;
}

Scores ScoresOf(const RunConfig& config, const std::string& folder = "") {
  Validate(config, config.layout.ranks());
  const auto train = OpenRunSource(config, "train");
  const std::vector<EvaluationTask> tasks = OpenTasks(config);
  ScoreWatcher watcher;
  RunThreadRanks(config.layout.ranks(), {.kind = "cpu"}, [&](RankContext& context) {
    RunTraining(config, context, {.train = train.get()}, {.run_folder = folder, .tasks = &tasks}, &watcher);
  });
  return watcher.scores();
}

TEST(TasksOfARun, HaveTheSameScoresUnderEveryLayout) {
  const ScratchDirectory files;
  RunConfig config = TaskRun(files);
  const Scores expected = ScoresOf(config);
  EXPECT_EQ(expected.size(), 10U);
  for (const ParallelLayout& layout :
       {ParallelLayout{.tensor = 2, .pipeline = 2, .data = 2, .zero = 1, .sequence_parallel = true, .micro_batch = 2},
        ParallelLayout{.data = 2, .zero = 3, .micro_batch = 3},
        ParallelLayout{.context = 2, .zero = 2, .micro_batch = 2},
        ParallelLayout{.pipeline = 2, .schedule = "zero_bubble", .offload = Offload::kFull}}) {
    SCOPED_TRACE(layout.ToString());
    config.layout = layout;
    const Scores scores = ScoresOf(config);
    ASSERT_EQ(scores.size(), expected.size());
    for (const auto& [name, value] : expected) {
      EXPECT_NEAR(scores.at(name), value, 1e-5 * std::max(1.0, value)) << name;
    }
  }
}

TEST(TasksOfARun, HaveTheScoresThatTheSavedModelHas) {
  const ScratchDirectory files;
  const ScratchDirectory folder;
  const RunConfig config = TaskRun(files);
  const Scores scores = ScoresOf(config, folder.path());
  const ModelFiles saved = OpenModelFiles(folder.path());
  const auto tokenizer = LoadModelTokenizer(saved, "");
  WithModel(saved, {.options = {.batch = 3, .rows = 3 * config.model.sequence}}, [&](InferenceModel& model, int) {
    const ChoiceReport report = EvaluateChoices(model, ReadQuestions(files / "choices.jsonl"), *tokenizer);
    EXPECT_DOUBLE_EQ(scores.at("4 choices acc"), report.accuracy);
    EXPECT_DOUBLE_EQ(scores.at("4 choices acc_norm"), report.normalised_accuracy);
    EXPECT_NEAR(scores.at("4 choices gold_loss"), report.gold_loss, 1e-5 * report.gold_loss);
    std::ifstream file(files / "text.txt");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const TextWindows windows(tokenizer->Encode(text), config.model.sequence);
    const LossReport loss = EvaluateSamples(
        model, windows.count(), [&](std::int64_t i) { return windows.Get(i); }, tokenizer.get());
    EXPECT_NEAR(scores.at("4 text bits_per_byte"), loss.bits_per_byte(), 1e-5 * loss.bits_per_byte());
  });
}

TEST(TasksOfARun, ThatCannotBeReadAreRefusedBeforeItStarts) {
  const ScratchDirectory files;
  RunConfig config = TaskRun(files);
  config.evaluate.samples = 2;
  const std::vector<EvaluationTask> tasks = OpenTasks(config);
  ASSERT_EQ(tasks.size(), 2U);
  EXPECT_EQ(tasks[0].samples.size(), 5U);
  EXPECT_EQ(tasks[1].samples.size(), 2U);
  config.evaluate.tasks += ",";
  EXPECT_THAT(test::MessageOf([&] { OpenTasks(config); }), testing::HasSubstr("empty file"));
  config.evaluate.tasks = "nowhere.jsonl";
  EXPECT_THAT(test::MessageOf([&] { OpenTasks(config); }), testing::HasSubstr("'nowhere.jsonl' cannot be read"));
  config.model.vocabulary = 300;
  EXPECT_THAT(test::MessageOf([&] { OpenTasks(config); }), testing::HasSubstr("tokenizer"));
  config.evaluate = {.tasks = "a.jsonl", .every = 0, .steps = "", .samples = 0, .tokenizer = ""};
  EXPECT_THAT(test::MessageOf([&] { Validate(config, 0); }), testing::HasSubstr("evaluate.every = 0"));
}

}  // namespace
}  // namespace trireme
