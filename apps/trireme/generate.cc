#include "infer/generate.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/trireme/chat_options.h"
#include "apps/trireme/command_line.h"
#include "apps/trireme/commands.h"
#include "apps/trireme/inference.h"
#include "base/error.h"
#include "base/json_text.h"
#include "infer/chat_session.h"

namespace trireme {
namespace {

constexpr const char* kGenerateExamples = R"(
Examples:
  trireme generate runs/quickstart --prompt "The " --tokens 60
  trireme generate runs/quickstart --prompts questions.txt --temperature 0 --json
  trireme generate downloads/qwen3-0.6b --chat --prompt "Why is the sky blue?"
  trireme generate downloads/gpt2 --prompt "Once upon a time" --top-p 0.9 --seed 7 --ranks 2

Exit codes: 0 done; 1 failed; 2 unusable input.)";

struct GenerateCommand {
  InferenceCommand inference;
  ChatOptions chat_options;
  bool chat = false;
  std::string prompt;
  std::string prompts_file;
  GenerateOptions options;
  std::vector<std::string> stops;
  std::int64_t batch = 8;
  bool json = false;
  bool log_probabilities = false;

  // What is kept of a text: up to the first of the stops.
  std::string BeforeStop(const std::string& text) const;

  std::vector<std::string> Prompts() const;
  // The tokens to continue; `ends` are those that end a continuation.
  std::vector<TokenList> EncodePrompts(const ModelFiles& files, const Tokenizer& tokenizer,
                                       const std::vector<std::string>& texts, TokenList& ends) const;
  struct Made {
    TokenList tokens;
    std::vector<double> log_probabilities;
  };
  void Print(const Tokenizer& tokenizer, const std::string& text, const Made& made) const;
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

std::string GenerateCommand::BeforeStop(const std::string& text) const {
  std::size_t end = text.size();
  for (const std::string& stop : stops) {
    end = std::min(end, text.find(stop));
  }
  return text.substr(0, end);
}

void GenerateCommand::Print(const Tokenizer& tokenizer, const std::string& text, const Made& made) const {
  const std::string continued = BeforeStop(tokenizer.Decode(made.tokens));
  if (json) {
    nlohmann::ordered_json row = {{"prompt", text}, {"text", continued}, {"tokens", made.tokens}};
    if (log_probabilities) {
      row["logprobs"] = made.log_probabilities;
    }
    std::printf("%s\n", JsonText(row).c_str());
  } else {
    const std::string shown = (chat ? "" : text) + continued + "\n";
    std::fwrite(shown.data(), 1, shown.size(), stdout);
  }
}

std::vector<TokenList> GenerateCommand::EncodePrompts(const ModelFiles& files, const Tokenizer& tokenizer,
                                                      const std::vector<std::string>& texts, TokenList& ends) const {
  std::vector<TokenList> prompts;
  if (chat) {
    const ChatTemplate chat_template = chat_options.Open(files, inference.tokenizer);
    for (const std::string& text : texts) {
      prompts.push_back(EncodeQuestion(tokenizer, chat_template, chat_options.system, text));
    }
    ends = AnswerEnds(tokenizer, chat_template);
    return prompts;
  }
  Require(chat_options.system.empty() && chat_options.template_file.empty(), "--system and --template are for --chat");
  for (const std::string& text : texts) {
    prompts.push_back(EncodePrompt(tokenizer, text));
  }
  if (const auto end = tokenizer.end_of_text()) {
    ends.push_back(*end);
  }
  return prompts;
}

int GenerateCommand::Run() const {
  RequireSensible(options.sampling);
  Require(options.tokens >= 0, "--tokens {} must be 0 (until the sequence is full) or more", options.tokens);
  Require(batch >= 1, "--batch {} must be 1 or more", batch);
  Require(!log_probabilities || json, "--logprobs adds to the objects of --json: give both");
  Require(std::none_of(stops.begin(), stops.end(), [](const std::string& stop) { return stop.empty(); }),
          "--stop with an empty text would stop at once");
  const std::vector<std::string> texts = Prompts();
  const ModelFiles files = inference.Open();
  const std::unique_ptr<Tokenizer> tokenizer = LoadModelTokenizer(files, inference.tokenizer);
  GenerateOptions own = options;
  const std::vector<TokenList> prompts = EncodePrompts(files, *tokenizer, texts, own.stop);
  own.vocabulary = tokenizer->vocabulary();
  const InferenceOptions plan = PlanGeneration(
      files.model, {.prompts = prompts, .batch = batch, .dtype = inference.WorkingType(files)}, own.tokens);
  if (own.tokens < options.tokens) {
    std::fprintf(stderr, "--tokens %lld: %lld are made, as many as the model's sequence of %lld leaves room for\n",
                 static_cast<long long>(options.tokens), static_cast<long long>(own.tokens),
                 static_cast<long long>(files.model.sequence));
  }
  if (!stops.empty()) {
    own.ends = [&](const TokenList& made) {
      const std::string text = tokenizer->Decode(made);
      return BeforeStop(text).size() < text.size();
    };
  }
  const bool stream = prompts.size() == 1 && !json;
  return inference.RunRanks([&](RankContext& context) {
    InferenceModel model(files.model, files.weights, context, plan);
    const bool speaks = context.world.rank() == 0;
    std::vector<Made> made(prompts.size());
    std::size_t shown = 0;
    const auto note = [&](const ChosenToken& chosen) {
      Made& own_tokens = made[chosen.prompt];
      own_tokens.tokens.push_back(chosen.token);
      own_tokens.log_probabilities.push_back(chosen.log_probability);
      if (!stream) {
        return;
      }
      // A token may be part of a character, or change with its neighbours: what is new of the whole is shown.
      const std::string text = BeforeStop(tokenizer->Decode(own_tokens.tokens));
      std::fwrite(text.data() + std::min(shown, text.size()), 1, text.size() - std::min(shown, text.size()), stdout);
      std::fflush(stdout);
      shown = text.size();
    };
    if (stream && speaks && !chat) {
      std::fwrite(texts[0].data(), 1, texts[0].size(), stdout);
    }
    Generate(model, prompts, own, speaks ? note : TokenCallback{});
    if (stream && speaks) {
      std::putchar('\n');
    }
    for (std::size_t i = 0; speaks && !stream && i < made.size(); ++i) {
      Print(*tokenizer, texts[i], made[i]);
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
  generate->add_option("--min-p", command->options.sampling.min_p,
                       "Choose among tokens at least this share as likely as the likeliest");
  generate->add_option("--top-p", command->options.sampling.top_p, "Choose among the likeliest of this probability");
  generate->add_option("--seed", command->options.seed, "Equal seeds give equal texts (1)")->check(NotNegative());
  generate->add_option("--batch", command->batch, "Prompts at once, at most (8)");
  generate->add_option("--stop", command->stops, "Text at which a continuation ends, left out of it; may be repeated");
  generate->add_flag("--chat", command->chat, "Each prompt is a message of a user, put into the chat template");
  command->chat_options.AddOptions(*generate);
  generate->add_flag("--json", command->json, "One JSON object a prompt: prompt, text, tokens");
  generate->add_flag("--logprobs", command->log_probabilities,
                     "With --json: the logarithm of each token's probability, as the model says");
  generate->footer(kGenerateExamples);
  generate->callback([command, &exit_code] { exit_code = command->Run(); });
}

}  // namespace trireme
