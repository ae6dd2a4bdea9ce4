#include "infer/evaluate.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "apps/trireme/command_line.h"
#include "apps/trireme/commands.h"
#include "apps/trireme/inference.h"
#include "base/error.h"
#include "base/json_text.h"
#include "infer/evaluation_samples.h"
#include "infer/logits.h"
#include "infer/multiple_choice.h"
#include "infer/staged_evaluation.h"

namespace trireme {
namespace {

constexpr const char* kEvaluateExamples = R"(
Examples:
  trireme evaluate runs/quickstart
  trireme evaluate runs/quickstart --text book.txt --json
  trireme evaluate downloads/llama --choices arc_easy.jsonl --ranks 2
  trireme evaluate downloads/llama --tokens ids.txt --logits logits.npy
  trireme evaluate downloads/llama --tokens ids.txt --logits logits.npy --ranks 2 --pipeline 2

A line of --choices: {"query": "The sky is", "choices": ["blue", "seven"], "gold": 0}
Exit codes: 0 done; 1 failed; 2 unusable input.)";

struct EvaluateCommand {
  InferenceCommand inference;
  std::string data;
  std::string split;
  std::string text;
  std::string tokens;
  std::string logits;
  std::string choices;
  std::int64_t samples = 256;
  std::int64_t sequence = 0;
  std::int64_t batch = 8;
  int pipeline = 0;
  bool json = false;

  int RunLoss(const ModelFiles& files, std::int64_t length) const;
  // The forward pass of training, in stages.
  int RunStages(const ModelFiles& files, const EvaluationSamples& work, const LogitRequest& request,
                std::int64_t length) const;
  int RunChoices(const ModelFiles& files, std::int64_t length) const;
  void PrintLoss(const LossReport& report) const;
  void PrintChoices(const ChoiceReport& report) const;
  int Run() const;
};

int EvaluateCommand::Run() const {
  Require(samples >= 0, "--samples {} must be 0 (all) or more", samples);
  Require(batch >= 1, "--batch {} must be 1 or more", batch);
  Require(sequence >= 0, "--sequence {} must be 1 or more", sequence);
  const ModelFiles files = inference.Open();
  const std::int64_t length = sequence > 0 ? sequence : files.model.sequence;
  Require(length <= files.model.sequence || files.model.position != PositionChoice::kLearned,
          "--sequence {} is more than the {} positions that the model learned", length, files.model.sequence);
  return choices.empty() ? RunLoss(files, length) : RunChoices(files, length);
}

int EvaluateCommand::RunLoss(const ModelFiles& files, std::int64_t length) const {
  const EvaluationSamples work = OpenEvaluation(files, {.text = text,
                                                        .tokens = tokens,
                                                        .data = data,
                                                        .split = split,
                                                        .tokenizer = inference.tokenizer,
                                                        .samples = samples,
                                                        .length = length});
  const LogitRequest request{.count = work.count, .get = work.get, .path = logits};
  if (!logits.empty()) {
    RequireWritable(request);
  }
  if (pipeline > 0) {
    return RunStages(files, work, request, length);
  }
  const std::int64_t together = std::min(batch, work.count);
  const InferenceOptions options{.dtype = inference.WorkingType(files),
                                 .batch = together,
                                 .rows = together * length,
                                 .document_positions = files.document_positions};
  return inference.RunRanks([&](RankContext& context) {
    InferenceModel model(files.model, files.weights, context, options);
    const bool speaks = context.world.rank() == 0;
    const LossReport report = EvaluateSamples(model, work.count, work.get, work.tokenizer.get());
    if (!logits.empty()) {
      WriteLogits(model, speaks, request);
    }
    if (speaks) {
      PrintLoss(report);
    }
  });
}

int EvaluateCommand::RunStages(const ModelFiles& files, const EvaluationSamples& work, const LogitRequest& request,
                               std::int64_t length) const {
  std::int64_t longest = 0;
  bool documents = false;
  for (std::int64_t index = 0; index < work.count; ++index) {
    const Sample sample = work.get(index);
    longest = std::max(longest, static_cast<std::int64_t>(sample.tokens.size()) - 1);
    documents = documents || !sample.document_starts.empty();
  }
  const auto run_of = [&](int tensor) {
    return RunOfStages(files, {.tensor = tensor,
                               .pipeline = pipeline,
                               .dtype = std::string(Name(inference.WorkingType(files))),
                               .length = std::min(longest, length),
                               .documents = documents});
  };
  InferenceCommand all = inference;
  if (!LaunchedByMpi()) {
    all.ranks = std::max(inference.ranks, 1) * pipeline;
    run_of(std::max(inference.ranks, 1));  // refused before ranks start
  }
  return all.RunRanks([&](RankContext& context) {
    const int world = context.world.size();
    Require(world % pipeline == 0, "--pipeline {} does not divide the {} ranks", pipeline, world);
    const LossReport report =
        EvaluateInStages(run_of(world / pipeline), files.weights, context, request, work.tokenizer.get());
    if (context.world.rank() == 0) {
      PrintLoss(report);
    }
  });
}

int EvaluateCommand::RunChoices(const ModelFiles& files, std::int64_t length) const {
  const std::vector<Question> questions = ReadQuestions(choices);
  const std::unique_ptr<Tokenizer> tokenizer = LoadModelTokenizer(files, inference.tokenizer);
  const InferenceOptions options{.dtype = inference.WorkingType(files), .batch = batch, .rows = batch * length};
  return inference.RunRanks([&](RankContext& context) {
    InferenceModel model(files.model, files.weights, context, options);
    const ChoiceReport report = EvaluateChoices(model, questions, *tokenizer);
    if (context.world.rank() == 0) {
      PrintChoices(report);
    }
  });
}

void EvaluateCommand::PrintLoss(const LossReport& report) const {
  if (json) {
    nlohmann::ordered_json row = {{"samples", report.samples},
                                  {"tokens", report.weight},
                                  {"loss", report.loss},
                                  {"perplexity", report.perplexity()}};
    if (report.bytes > 0) {
      row["bytes"] = report.bytes;
      row["bits_per_byte"] = report.bits_per_byte();
    }
    std::printf("%s\n", JsonText(row).c_str());
    return;
  }
  std::printf("samples        %lld\n", static_cast<long long>(report.samples));
  std::printf("tokens         %.0f\n", report.weight);
  std::printf("loss           %.6f\n", report.loss);
  std::printf("perplexity     %.4f\n", report.perplexity());
  if (report.bytes > 0) {
    std::printf("bits per byte  %.6f\n", report.bits_per_byte());
  }
}

void EvaluateCommand::PrintChoices(const ChoiceReport& report) const {
  const double error = report.standard_error(report.accuracy);
  const double normalised_error = report.standard_error(report.normalised_accuracy);
  if (json) {
    const nlohmann::ordered_json row = {{"questions", report.questions},
                                        {"acc", report.accuracy},
                                        {"acc_stderr", error},
                                        {"acc_norm", report.normalised_accuracy},
                                        {"acc_norm_stderr", normalised_error},
                                        {"gold_loss", report.gold_loss}};
    std::printf("%s\n", JsonText(row).c_str());
    return;
  }
  std::printf("questions            %lld\n", static_cast<long long>(report.questions));
  std::printf("accuracy             %.4f +- %.4f\n", report.accuracy, error);
  std::printf("accuracy per byte    %.4f +- %.4f\n", report.normalised_accuracy, normalised_error);
  std::printf("loss of the answers  %.6f\n", report.gold_loss);
}

}  // namespace

void AddEvaluateCommand(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<EvaluateCommand>();
  CLI::App* evaluate = app.add_subcommand("evaluate", "Loss, perplexity, bits per byte; multiple-choice questions");
  command->inference.AddOptions(*evaluate);
  CLI::Option* data =
      evaluate->add_option("--data", command->data,
                           "Dataset: FILE.bin, a file of bytes, a weighted list; the run's own when not "
                           "given. Read as in training: document masks, packing, answers");
  evaluate->add_option("--split", command->split, "train, validation or test, by the run's shares (validation)");
  CLI::Option* text = evaluate->add_option("--text", command->text, "Text file, every token predicted once");
  CLI::Option* choices = evaluate->add_option("--choices", command->choices, "JSONL of multiple-choice questions");
  CLI::Option* tokens =
      evaluate->add_option("--tokens", command->tokens, "File of samples as token ids, one a line with spaces between");
  text->excludes(data);
  tokens->excludes(data)->excludes(text);
  choices->excludes(data)->excludes(text)->excludes(tokens);
  evaluate
      ->add_option("--logits", command->logits,
                   "NumPy file to write: float32 [samples, tokens, vocabulary], of samples of one length")
      ->excludes(choices);
  evaluate->add_option("--samples", command->samples, "Samples at most (256); 0 takes all");
  evaluate->add_option("--sequence", command->sequence, "Tokens of a sample; the model's sequence when not given");
  evaluate->add_option("--batch", command->batch, "Samples at once (8)");
  evaluate
      ->add_option("--pipeline", command->pipeline,
                   "Pipeline stages of --ranks ranks each: the forward pass of training, which holds what a training "
                   "run holds, one sample at a time")
      ->check(AboveZero())
      ->excludes(choices);
  evaluate->add_flag("--json", command->json, "One JSON object");
  evaluate->footer(kEvaluateExamples);
  evaluate->callback([command, &exit_code] { exit_code = command->Run(); });
}

}  // namespace trireme
