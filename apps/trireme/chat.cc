#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/trireme/chat_options.h"
#include "apps/trireme/command_line.h"
#include "apps/trireme/commands.h"
#include "apps/trireme/inference.h"
#include "base/error.h"
#include "base/json_text.h"
#include "infer/chat_session.h"
#include "infer/generate.h"

namespace trireme {
namespace {

constexpr const char* kChatExamples = R"(
Examples:
  trireme chat runs/tuned
  trireme chat downloads/qwen3-0.6b --system "Answer in one sentence." --temperature 0.7 --top-p 0.9
  trireme chat runs/tuned --prompts questions.txt --temperature 0 --json

A line is a message. /help lists the commands, /reset forgets the conversation, /quit (or the end of the input) ends it.
Exit codes: 0 done; 1 failed; 2 unusable input.)";

constexpr const char* kChatHelp =
    "/help   this list\n/reset  forget the conversation\n/quit   end, as the end of the input does\n"
    "Any other line is a message.\n";

// One word behind a slash; a path or a sentence is a message.
bool IsCommand(const std::string& line) {
  return line.size() > 1 && line.front() == '/' &&
         std::all_of(line.begin() + 1, line.end(), [](char letter) { return letter >= 'a' && letter <= 'z'; });
}

std::string UnknownCommand(const std::string& line) { return line + " is no command: /help lists them\n"; }

struct ChatCommand {
  InferenceCommand inference;
  ChatOptions chat;
  std::string prompts_file;
  GenerateOptions options = {.tokens = 256};
  bool json = false;

  // The next line of the user; false at the end.
  bool NextLine(std::istream& lines, bool prompts, std::string& line) const;
  int Run() const;
};

bool ChatCommand::NextLine(std::istream& lines, bool prompts, std::string& line) const {
  if (prompts) {
    std::fputs("> ", stdout);
    std::fflush(stdout);
  }
  if (!std::getline(lines, line)) {
    return false;
  }
  line.erase(line.ends_with('\r') ? line.size() - 1 : line.size());
  return line != "/quit";
}

// Shows the answer as it is made; what it has shown is the answer.
class Speaker {
 public:
  Speaker(const Tokenizer& tokenizer, bool shows) : tokenizer_(tokenizer), shows_(shows) {}

  void Add(std::int32_t token) {
    tokens_.push_back(token);
    text_ = tokenizer_.Decode(tokens_);
    // A character may end in the next token: what is whole is shown.
    const std::size_t whole = WholeCharacters(text_);
    if (shows_ && whole > shown_) {
      std::fwrite(text_.data() + shown_, 1, whole - shown_, stdout);
      std::fflush(stdout);
      shown_ = whole;
    }
  }
  std::string End() {
    if (shows_) {
      std::fwrite(text_.data() + shown_, 1, text_.size() - shown_, stdout);
      std::fputs("\n", stdout);
      std::fflush(stdout);
    }
    return text_;
  }
  const TokenList& tokens() const { return tokens_; }

 private:
  static std::size_t WholeCharacters(const std::string& text) {
    std::size_t end = text.size();
    for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
      const auto byte = static_cast<unsigned char>(text[text.size() - back]);
      if (byte >= 0xc0U) {
        const std::size_t length = byte >= 0xf0U ? 4 : byte >= 0xe0U ? 3 : 2;
        end = length > back ? text.size() - back : end;
        break;
      }
    }
    return end;
  }

  const Tokenizer& tokenizer_;
  bool shows_;
  TokenList tokens_;
  std::string text_;
  std::size_t shown_ = 0;
};

int ChatCommand::Run() const {
  RequireSensible(options.sampling);
  Require(options.tokens >= 1, "--tokens {} must be 1 or more", options.tokens);
  Require(!LaunchedByMpi(), "chat runs in one process, with --ranks as threads: start it without mpirun");
  const ModelFiles files = inference.Open();
  const std::unique_ptr<Tokenizer> tokenizer = LoadModelTokenizer(files, inference.tokenizer);
  const ChatTemplate chat_template = chat.Open(files, inference.tokenizer);
  std::ifstream file(prompts_file);
  Require(prompts_file.empty() || static_cast<bool>(file), "'{}' cannot be read", prompts_file);
  std::istream& lines = prompts_file.empty() ? std::cin : file;
  const bool prompts = prompts_file.empty() && !json && isatty(fileno(stdin)) != 0;

  GenerateOptions own = options;
  own.vocabulary = tokenizer->vocabulary();
  own.stop = AnswerEnds(*tokenizer, chat_template);
  // At least half of the sequence is for questions and what was said before.
  own.tokens = std::min(own.tokens, std::max<std::int64_t>(files.model.sequence / 2, 1));
  if (own.tokens < options.tokens) {
    std::fprintf(stderr, "answers have at most %lld tokens, half of the model's sequence of %lld\n",
                 static_cast<long long>(own.tokens), static_cast<long long>(files.model.sequence));
  }
  const std::int64_t room = files.model.sequence - own.tokens;
  ChatSession session(*tokenizer, chat_template, chat.system);
  // What rank 0 has read, for all ranks.
  TokenList question;
  bool goes_on = true;
  return inference.RunRanks([&](RankContext& context) {
    const InferenceOptions plan{.dtype = inference.WorkingType(files),
                                .batch = 1,
                                .rows = std::min<std::int64_t>(512, files.model.sequence),
                                .capacity = files.model.sequence};
    InferenceModel model(files.model, files.weights, context, plan);
    const bool speaks = context.world.rank() == 0;
    std::string line;
    while (true) {
      if (speaks) {
        goes_on = NextLine(lines, prompts, line);
        while (goes_on && (line.empty() || IsCommand(line))) {
          if (line == "/reset") {
            session.Reset();
          } else if (!line.empty()) {
            std::fputs(line == "/help" ? kChatHelp : UnknownCommand(line).c_str(), stderr);
          }
          goes_on = NextLine(lines, prompts, line);
        }
        question = goes_on ? session.Ask(line, room) : TokenList();
      }
      context.world.Barrier();
      if (!goes_on) {
        return;
      }
      Speaker speaker(*tokenizer, speaks && !json);
      Generate(model, {&question, 1}, own,
               speaks ? TokenCallback([&](const ChosenToken& chosen) { speaker.Add(chosen.token); }) : TokenCallback{});
      context.world.Barrier();
      if (speaks) {
        const std::string answer = speaker.End();
        session.Answer(answer);
        if (json) {
          const nlohmann::ordered_json row = {{"user", line}, {"assistant", answer}, {"tokens", speaker.tokens()}};
          std::printf("%s\n", JsonText(row).c_str());
        }
      }
    }
  });
}

}  // namespace

void AddChatCommand(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<ChatCommand>();
  CLI::App* chat = app.add_subcommand("chat", "Talk with a model in the terminal, by its chat template");
  command->inference.AddOptions(*chat);
  command->chat.AddOptions(*chat);
  chat->add_option("--prompts", command->prompts_file, "File of messages, one a line, instead of the terminal");
  chat->add_option("--tokens", command->options.tokens, "Tokens of an answer at most (256)");
  chat->add_option("--temperature", command->options.sampling.temperature, "1; 0 takes the most likely token");
  chat->add_option("--top-k", command->options.sampling.top_k, "Choose among the K most likely tokens");
  chat->add_option("--min-p", command->options.sampling.min_p,
                   "Choose among tokens at least this share as likely as the likeliest");
  chat->add_option("--top-p", command->options.sampling.top_p, "Choose among the likeliest of this probability");
  chat->add_option("--seed", command->options.seed, "Equal seeds give equal texts (1)")->check(NotNegative());
  chat->add_flag("--json", command->json, "One JSON object an answer: user, assistant, tokens");
  chat->footer(kChatExamples);
  chat->callback([command, &exit_code] { exit_code = command->Run(); });
}

}  // namespace trireme
