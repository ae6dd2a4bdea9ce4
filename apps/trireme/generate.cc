#include "infer/generate.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/trireme/command_line.h"
#include "apps/trireme/commands.h"
#include "apps/trireme/inference.h"
#include "base/error.h"

namespace trireme {
namespace {

constexpr const char* kGenerateExamples = R"(
Examples:
  trireme generate runs/quickstart --prompt "The " --tokens 60
  trireme generate runs/quickstart --prompts questions.txt --temperature 0 --json
  trireme generate downloads/gpt2 --prompt "Once upon a time" --top-p 0.9 --seed 7 --ranks 2

Exit codes: 0 done; 1 failed; 2 unusable input.)";

struct GenerateCommand {
  InferenceCommand inference;
  std::string prompt;
  std::string prompts_file;
  GenerateOptions options;
  std::int64_t batch = 8;
  bool json = false;

  std::vector<std::string> Prompts() const;
  void Print(const Tokenizer& tokenizer, const std::string& text, const TokenList& tokens) const;
  int Run() const;
};

std::vector<std::string> GenerateCommand::Prompts() const {
  if (prompts_file.empty()) {
    return {prompt};
  }
  std::ifstream file(prompts_file);
  Require(static_cast<bool>(file), "'{}' cannot be read", prompts_file);
  std::vector<std::string> prompts;
  for (std::string line; std::getline(file, line);) {
    line.erase(line.ends_with('\r') ? line.size() - 1 : line.size());
    prompts.push_back(line);
  }
  Require(!prompts.empty(), "'{}' holds no prompt: one a line", prompts_file);
  return prompts;
}

void GenerateCommand::Print(const Tokenizer& tokenizer, const std::string& text, const TokenList& tokens) const {
  const std::string made = tokenizer.Decode(tokens);
  if (json) {
    const nlohmann::ordered_json row = {{"prompt", text}, {"text", made}, {"tokens", tokens}};
    std::printf("%s\n", row.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else {
    std::fwrite((text + made + "\n").data(), 1, text.size() + made.size() + 1, stdout);
  }
}

int GenerateCommand::Run() const {
  RequireSensible(options.sampling);
  Require(options.tokens >= 0, "--tokens {} must be 0 (until the sequence is full) or more", options.tokens);
  Require(batch >= 1, "--batch {} must be 1 or more", batch);
  const std::vector<std::string> texts = Prompts();
  const ModelFiles files = inference.Open();
  const std::unique_ptr<Tokenizer> tokenizer = LoadModelTokenizer(files, inference.tokenizer);
  std::vector<TokenList> prompts;
  for (const std::string& text : texts) {
    prompts.push_back(EncodePrompt(*tokenizer, text));
  }
  GenerateOptions own = options;
  own.vocabulary = tokenizer->vocabulary();
  const InferenceOptions plan = PlanGeneration(
      files.model, {.prompts = prompts, .batch = batch, .dtype = inference.WorkingType(files)}, own.tokens);
  if (const auto end = tokenizer->end_of_text()) {
    own.stop.push_back(*end);
  }
  const bool stream = prompts.size() == 1 && !json;
  return inference.RunRanks([&](RankContext& context) {
    InferenceModel model(files.model, files.weights, context, plan);
    const bool speaks = context.world.rank() == 0;
    TokenList made;
    std::size_t shown = 0;
    const auto show = [&](std::size_t, std::int32_t token) {
      made.push_back(token);
      // A token may be part of a character, or change with its neighbours: what is new of the whole is shown.
      const std::string text = tokenizer->Decode(made);
      std::fwrite(text.data() + std::min(shown, text.size()), 1, text.size() - std::min(shown, text.size()), stdout);
      std::fflush(stdout);
      shown = text.size();
    };
    if (stream && speaks) {
      std::fwrite(texts[0].data(), 1, texts[0].size(), stdout);
    }
    const std::vector<TokenList> all = Generate(model, prompts, own, stream && speaks ? show : TokenCallback{});
    if (stream && speaks) {
      std::putchar('\n');
    }
    for (std::size_t i = 0; speaks && !stream && i < all.size(); ++i) {
      Print(*tokenizer, texts[i], all[i]);
    }
  });
}

}  // namespace

void AddGenerateCommand(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<GenerateCommand>();
  CLI::App* generate = app.add_subcommand("generate", "Continue prompts with a trained model");
  command->inference.AddOptions(*generate);
  CLI::Option* prompt = generate->add_option("--prompt", command->prompt, "Text to continue; shown as it is made");
  generate->add_option("--prompts", command->prompts_file, "File of prompts, one a line")->excludes(prompt);
  generate->add_option("--tokens", command->options.tokens,
                       "New tokens at most; until the sequence is full by default");
  generate->add_option("--temperature", command->options.sampling.temperature, "1; 0 takes the most likely token");
  generate->add_option("--top-k", command->options.sampling.top_k, "Choose among the K most likely tokens");
  generate->add_option("--top-p", command->options.sampling.top_p, "Choose among the likeliest of this probability");
  generate->add_option("--seed", command->options.seed, "Equal seeds give equal texts (1)")->check(NotNegative());
  generate->add_option("--batch", command->batch, "Prompts at once, at most (8)");
  generate->add_flag("--json", command->json, "One JSON object a prompt: prompt, text, tokens");
  generate->footer(kGenerateExamples);
  generate->callback([command, &exit_code] { exit_code = command->Run(); });
}

}  // namespace trireme
