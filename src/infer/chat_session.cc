#include "infer/chat_session.h"

#include <algorithm>

#include "base/error.h"

namespace trireme {

ChatSession::ChatSession(const Tokenizer& tokenizer, const ChatTemplate& chat, std::string system)
    : tokenizer_(tokenizer), chat_(chat), system_(std::move(system)) {
  Reset();
}

void ChatSession::Reset() {
  messages_.clear();
  if (!system_.empty()) {
    messages_.push_back({"system", system_});
  }
}

std::vector<std::int32_t> ChatSession::Ask(const std::string& text, std::int64_t most) {
  messages_.push_back({"user", text});
  const std::ptrdiff_t first = system_.empty() ? 0 : 1;
  while (true) {
    std::vector<std::int32_t> tokens = tokenizer_.Encode(chat_.Render(ToJson(messages_), true).text);
    if (static_cast<std::int64_t>(tokens.size()) <= most) {
      return tokens;
    }
    if (static_cast<std::ptrdiff_t>(messages_.size()) < first + 3) {
      messages_.pop_back();
      Fail("a message of {} tokens leaves no room for an answer: {} are the most", tokens.size(), most);
    }
    messages_.erase(messages_.begin() + first, messages_.begin() + first + 2);
    ++forgotten_;
  }
}

void ChatSession::Answer(const std::string& text) { messages_.push_back({"assistant", text}); }

std::vector<std::int32_t> EncodeQuestion(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                         const std::string& system, const std::string& text) {
  std::vector<ChatMessage> messages;
  if (!system.empty()) {
    messages.push_back({"system", system});
  }
  messages.push_back({"user", text});
  return tokenizer.Encode(chat.Render(ToJson(messages), true).text);
}

std::vector<std::int32_t> AnswerEnds(const Tokenizer& tokenizer, const ChatTemplate& chat) {
  std::vector<std::int32_t> ends;
  if (const auto end = tokenizer.end_of_text()) {
    ends.push_back(*end);
  }
  // What stands after an answer whose words are known.
  const std::string words = "trireme";
  const std::string text = chat.Render(ToJson({{"user", "?"}, {"assistant", words}}), false).text;
  const std::size_t found = text.rfind(words);
  if (found != std::string::npos) {
    const std::vector<std::int32_t> after = tokenizer.Encode(text.substr(found + words.size()));
    const auto special =
        std::find_if(after.begin(), after.end(), [&](std::int32_t token) { return tokenizer.IsSpecial(token); });
    if (special != after.end() && std::find(ends.begin(), ends.end(), *special) == ends.end()) {
      ends.push_back(*special);
    }
  }
  return ends;
}

}  // namespace trireme
