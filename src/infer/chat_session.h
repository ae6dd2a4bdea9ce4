// A conversation with a model: messages so far, and the tokens that ask for the next answer by the tokenizer's chat
// template.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/chat/chat_template.h"
#include "data/tokenizer/tokenizer.h"

namespace trireme {

class ChatSession {
 public:
  // `system` is the first message, unless it is empty. Both outlive the session.
  ChatSession(const Tokenizer& tokenizer, const ChatTemplate& chat, std::string system);

  // Adds a message of the user; the tokens to continue. Exchanges are forgotten, the oldest first, until the tokens are
  // `most` or fewer; an Error when the message alone is longer.
  std::vector<std::int32_t> Ask(const std::string& text, std::int64_t most);
  // Adds the answer to the last question.
  void Answer(const std::string& text);
  void Reset();

  // Exchanges that Ask forgot so far.
  std::int64_t forgotten() const { return forgotten_; }

 private:
  const Tokenizer& tokenizer_;
  const ChatTemplate& chat_;
  std::string system_;
  std::vector<ChatMessage> messages_;
  std::int64_t forgotten_ = 0;
};

// The tokens of one question by itself.
std::vector<std::int32_t> EncodeQuestion(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                         const std::string& system, const std::string& text);
// Tokens that end an answer: the end of a text, and the special token that the template puts after an answer.
std::vector<std::int32_t> AnswerEnds(const Tokenizer& tokenizer, const ChatTemplate& chat);

}  // namespace trireme
