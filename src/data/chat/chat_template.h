// The chat template of a tokenizer: a conversation as the text that the model was trained on. The language is the part
// of Jinja that docs/data.md lists; what else a template uses is an Error that names it.
#pragma once

#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

struct ChatMessage {
  std::string role;  // system, user, assistant, or whatever the template knows
  std::string content;
};

struct ChatText {
  std::string text;
  // Bytes [first, second) that the model writes: answers of the assistant and what ends them.
  std::vector<std::pair<std::size_t, std::size_t>> answers;
};

class ChatTemplate {
 public:
  // The template of the tokenizer at `path` (as LoadTokenizer takes it); an Error when its files have no template.
  static ChatTemplate Load(const std::string& path);
  // Another template, for the special tokens of that tokenizer ("" or "bytes": none).
  static ChatTemplate Load(const std::string& path, const std::string& source);
  // `special` are further variables of the template: bos_token, eos_token and the like.
  ChatTemplate(const std::string& source, nlohmann::ordered_json special, std::string origin);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // `messages` is a list of objects with role and content. `answers` are what {% generation %} encloses.
  // add_generation_prompt: ends with the beginning of an answer.
  ChatText Render(const nlohmann::ordered_json& messages, bool add_generation_prompt) const;
  // The text of a whole conversation with the places of its answers. Where the template does not mark them, an answer
  // is what a message of the assistant adds to the text that asks for it; an Error when the template rewrites what came
  // before.
  ChatText RenderAnswers(const nlohmann::ordered_json& messages) const;

  void set_now(std::time_t now) { now_ = now; }

 private:
  struct Tree;
  std::unique_ptr<Tree> tree_;
  nlohmann::ordered_json special_;
  std::string origin_;
  std::time_t now_;
};

nlohmann::ordered_json ToJson(const std::vector<ChatMessage>& messages);

}  // namespace trireme
