#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/trireme/command_line.h"
#include "apps/trireme/commands.h"
#include "base/error.h"
#include "base/json_text.h"
#include "data/dataset/dataset_tools.h"
#include "data/prepare/prepare.h"
#include "data/tokenizer/bpe_trainer.h"

namespace trireme {
namespace {

struct DataCommand {
  PrepareOptions prepare;
  std::string format = "auto";
  bool no_end_of_text = false;
  TrainTokenizerOptions training;
  std::string pattern = "gpt2";
  std::string dataset;
  std::vector<std::string> datasets;
  std::string output;
  std::string weights = "95,5,0";
  std::int64_t vocabulary = 0;
  bool overwrite = false;
  std::optional<std::string> text;
  std::vector<std::int32_t> tokens;
  bool json = false;

  int Prepare();
  int Inspect() const;
  int Merge() const;
  int Split() const;
  int TrainTokenizerFile();
  int Encode() const;
  int Decode() const;
  void Print(const nlohmann::ordered_json& row) const;
};

// The numbers of an answer, for people a line each.
void DataCommand::Print(const nlohmann::ordered_json& row) const {
  if (json) {
    std::printf("%s\n", JsonText(row).c_str());
    return;
  }
  for (const auto& [key, value] : row.items()) {
    std::printf("%-18s %s\n", key.c_str(),
                value.is_string() ? value.get<std::string>().c_str() : JsonText(value).c_str());
  }
}

std::string AllOfStandardInput() {
  std::string text;
  char buffer[1 << 16];
  for (std::size_t read = 0; (read = std::fread(buffer, 1, sizeof buffer, stdin)) > 0;) {
    text.append(buffer, read);
  }
  return text;
}

int DataCommand::Prepare() {
  prepare.format = ParseTextFormat(format);
  prepare.append_end_of_text = !no_end_of_text;
  const bool live = isatty(STDERR_FILENO) != 0;
  const PrepareSummary summary = PrepareDataset(prepare, [live](const PrepareProgress& progress) {
    if (live) {
      std::fprintf(stderr, "\r\033[K%5.1f %%  files %lld/%lld  documents %lld  tokens %.1f M",
                   100.0 * static_cast<double>(progress.stored_bytes) /
                       static_cast<double>(std::max<std::int64_t>(progress.total_bytes, 1)),
                   static_cast<long long>(progress.files), static_cast<long long>(progress.total_files),
                   static_cast<long long>(progress.documents), static_cast<double>(progress.tokens) / 1e6);
    }
  });
  if (live) {
    std::fputs("\r\033[K", stderr);
  }
  if (summary.damaged.count > 0) {
    std::fprintf(stderr, "left out %lld damaged lines; the first: %s\n", static_cast<long long>(summary.damaged.count),
                 summary.damaged.first.c_str());
  }
  Print({{"output", prepare.output + ".bin"},
         {"documents", summary.documents},
         {"tokens", summary.tokens},
         {"vocabulary", summary.vocabulary},
         {"text_bytes", summary.text_bytes},
         {"damaged_lines", summary.damaged.count},
         {"resumed", summary.resumed},
         {"seconds", summary.seconds},
         {"megabytes_per_second", static_cast<double>(summary.text_bytes) / 1e6 / std::max(summary.seconds, 1e-9)}});
  return 0;
}

int DataCommand::Inspect() const {
  const DatasetSummary summary = InspectDataset(dataset, vocabulary);
  Print({{"path", summary.path},
         {"stored_as", std::string(Name(summary.kind))},
         {"tokens", summary.tokens},
         {"sequences", summary.sequences},
         {"documents", summary.documents},
         {"empty_documents", summary.empty_documents},
         {"shortest_document", summary.shortest_document},
         {"longest_document", summary.longest_document},
         {"smallest_token", summary.smallest_token},
         {"largest_token", summary.largest_token},
         {"has_modes", summary.has_modes}});
  return 0;
}

int DataCommand::Merge() const {
  MergeDatasets(datasets, {.prefix = output, .overwrite = overwrite});
  const DatasetSummary summary = InspectDataset(output);
  Print({{"output", summary.path}, {"documents", summary.documents}, {"tokens", summary.tokens}});
  return 0;
}

int DataCommand::Split() const {
  const auto parts = SplitDataset(dataset, weights, {.prefix = output, .overwrite = overwrite});
  Print({{"train_tokens", parts[0]}, {"validation_tokens", parts[1]}, {"test_tokens", parts[2]}});
  return 0;
}

int DataCommand::TrainTokenizerFile() {
  training.format = format;
  training.training.pattern = PatternByName(pattern);
  const bool live = isatty(STDERR_FILENO) != 0;
  const std::int64_t size = TrainTokenizer(training, [live](const char* stage, std::int64_t done, std::int64_t whole) {
    if (live) {
      std::fprintf(stderr, "\r\033[K%s %lld of %lld", stage, static_cast<long long>(done),
                   static_cast<long long>(whole));
    }
  });
  if (live) {
    std::fputs("\r\033[K", stderr);
  }
  Print({{"output", training.output}, {"vocabulary", size}});
  return 0;
}

int DataCommand::Encode() const {
  const auto tokenizer = LoadTokenizer(prepare.tokenizer);
  const std::vector<std::int32_t> ids = tokenizer->Encode(text ? *text : AllOfStandardInput());
  if (json) {
    std::printf("%s\n", JsonText(nlohmann::json(ids)).c_str());
    return 0;
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::printf("%s%d", i == 0 ? "" : " ", ids[i]);
  }
  std::putchar('\n');
  return 0;
}

int DataCommand::Decode() const {
  const std::string decoded = LoadTokenizer(prepare.tokenizer)->Decode(tokens);
  std::fwrite(decoded.data(), 1, decoded.size(), stdout);
  std::putchar('\n');
  return 0;
}

constexpr const char* kTokenizerHelp =
    "tokenizer.json, vocab.json with merges.txt, a SentencePiece .model, a directory of one, or 'bytes'";

using Shared = std::shared_ptr<DataCommand>;

CLI::App* Add(CLI::App& parent, const char* name, const char* description, const char* example) {
  CLI::App* app = parent.add_subcommand(name, description);
  app->footer(std::string("\nExample:\n  ") + example);
  return app;
}

void AddTextOptions(CLI::App& app, const Shared& command, std::vector<std::string>& inputs) {
  app.add_option("inputs", inputs, "Files and globs; plain, .gz or .zst")->required();
  app.add_option(
      "--format", command->format,
      "auto, text (a file is a document), lines, jsonl, chat (JSON lines of messages with role and content)");
}

void AddPrepare(CLI::App& data, const Shared& command, int& exit_code) {
  CLI::App* app = Add(data, "prepare", "Text or JSONL to a dataset, .bin and .idx; goes on when it was interrupted",
                      "trireme data prepare 'corpus/*.jsonl.zst' --tokenizer tokenizer.json --output corpus");
  AddTextOptions(*app, command, command->prepare.inputs);
  app->add_option("--field", command->prepare.json_field,
                  "Field of a JSON line that holds the text (text; messages for chat)");
  app->add_option("--tokenizer", command->prepare.tokenizer, kTokenizerHelp)->required();
  app->add_option("--output", command->prepare.output, "Prefix of the .bin and .idx")->required();
  app->add_flag("--no-end-of-text", command->no_end_of_text, "No end-of-text token after documents");
  app->add_flag("--parse-special", command->prepare.parse_special, "Special tokens written in the text become tokens");
  app->add_flag("--skip-damaged", command->prepare.skip_damaged,
                "Leave out and count JSON lines that are damaged or lack the field, instead of ending there");
  app->add_option("--threads", command->prepare.threads, "0: one a core")->check(NotNegative());
  app->add_flag("--overwrite", command->prepare.overwrite, "Replace what is there");
  app->add_flag("--json", command->json, "One JSON object");
  app->callback([command, &exit_code] { exit_code = command->Prepare(); });
}

void AddTrainTokenizer(CLI::App& data, const Shared& command, int& exit_code) {
  CLI::App* app = Add(data, "train-tokenizer", "Learn a byte-level BPE and write a tokenizer.json",
                      "trireme data train-tokenizer corpus.txt --vocabulary 32768 --output tokenizer.json");
  AddTextOptions(*app, command, command->training.inputs);
  app->add_option("--field", command->training.json_field, "Field of a JSON line that holds the text (text)");
  app->add_option("--output", command->training.output, "The tokenizer.json to write")->required();
  app->add_flag("--overwrite", command->training.overwrite, "Replace what is there");
  app->add_option("--vocabulary", command->training.training.vocabulary, "Tokens in all (32768)");
  app->add_option("--pattern", command->pattern,
                  "How text is cut into pieces: gpt2, bloom, llama3, qwen2 or tekken (gpt2)");
  app->add_option("--special", command->training.training.special_tokens, "Special tokens (<|endoftext|>)");
  app->add_option("--most-bytes", command->training.most_bytes, "Text to learn from (1 GiB)");
  app->add_flag("--json", command->json, "One JSON object");
  app->callback([command, &exit_code] { exit_code = command->TrainTokenizerFile(); });
}

void AddDatasetTools(CLI::App& data, const Shared& command, int& exit_code) {
  CLI::App* inspect = Add(data, "inspect", "Check a dataset and describe it", "trireme data inspect corpus.bin");
  inspect->add_option("dataset", command->dataset, "FILE.bin, FILE.idx or FILE")->required();
  inspect->add_option("--vocabulary", command->vocabulary, "Refuse tokens at or above this");
  inspect->add_flag("--json", command->json, "One JSON object");
  inspect->callback([command, &exit_code] { exit_code = command->Inspect(); });

  CLI::App* merge = Add(data, "merge", "Documents of several datasets in one", "trireme data merge a b --output ab");
  merge->add_option("datasets", command->datasets, "Two or more")->required()->expected(2, -1);
  merge->add_option("--output", command->output, "Prefix of the .bin and .idx")->required();
  merge->add_flag("--overwrite", command->overwrite, "Replace what is there");
  merge->add_flag("--json", command->json, "One JSON object");
  merge->callback([command, &exit_code] { exit_code = command->Merge(); });

  CLI::App* split = Add(data, "split", "Cut a dataset by whole documents into -train, -validation and -test",
                        "trireme data split corpus --weights 95,4,1 --output corpus");
  split->add_option("dataset", command->dataset, "FILE.bin, FILE.idx or FILE")->required();
  split->add_option("--weights", command->weights, "Shares of train, validation, test (95,5,0)");
  split->add_option("--output", command->output, "Prefix of the parts")->required();
  split->add_flag("--overwrite", command->overwrite, "Replace what is there");
  split->add_flag("--json", command->json, "One JSON object");
  split->callback([command, &exit_code] { exit_code = command->Split(); });
}

void AddTokenTools(CLI::App& data, const Shared& command, int& exit_code) {
  CLI::App* encode = Add(data, "encode", "Token ids of a text", "trireme data encode 'to be' --tokenizer bytes");
  encode->add_option("text", command->text, "The text; standard input when not given");
  encode->add_option("--tokenizer", command->prepare.tokenizer, kTokenizerHelp)->required();
  encode->add_flag("--json", command->json, "A JSON list");
  encode->callback([command, &exit_code] { exit_code = command->Encode(); });

  CLI::App* decode = Add(data, "decode", "Text of token ids", "trireme data decode 116 111 --tokenizer bytes");
  decode->add_option("tokens", command->tokens, "Token ids")->required();
  decode->add_option("--tokenizer", command->prepare.tokenizer, kTokenizerHelp)->required();
  decode->callback([command, &exit_code] { exit_code = command->Decode(); });
}

}  // namespace

void AddDataCommand(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<DataCommand>();
  CLI::App* data = app.add_subcommand("data", "Prepare datasets and tokenizers, look into them");
  data->require_subcommand(1);
  data->footer(
      "\nExample:\n  trireme data prepare corpus.txt --tokenizer tokenizer.json --output corpus\n\n"
      "Exit codes: 0 done; 1 failed; 2 unusable input.");
  AddPrepare(*data, command, exit_code);
  AddDatasetTools(*data, command, exit_code);
  AddTrainTokenizer(*data, command, exit_code);
  AddTokenTools(*data, command, exit_code);
}

}  // namespace trireme
