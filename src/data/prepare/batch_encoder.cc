#include "data/prepare/batch_encoder.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "data/files/json_file.h"

namespace trireme {

void DamagedLines::Add(const DamagedLines& later) {
  first = count == 0 ? later.first : first;
  count += later.count;
}

bool TryLine(const std::function<void()>& read, DamagedLines* damaged) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    if (damaged == nullptr) {
      throw;
    }
    damaged->Add(error.what());
    return false;
  }
}

std::string DocumentOfJson(std::string_view line, const std::string& field, const std::string& path,
                           std::int64_t number) {
  const std::string place = fmt::format("{}:{}", path, number);
  nlohmann::json json = ParseHostileJson(line, place);
  Require(json.is_object(), "'{}' is not a JSON object", place);
  const auto found = json.find(field);
  Require(found != json.end() && found->is_string(), "'{}' has no text in a field '{}'", place, field);
  return std::move(found->get_ref<std::string&>());
}

namespace {

nlohmann::ordered_json MessagesOf(std::string_view line, const std::string& field, const std::string& place) {
  const nlohmann::json json = ParseHostileJson(line, place);
  Require(json.is_object(), "'{}' is not a JSON object", place);
  const auto found = json.find(field);
  Require(found != json.end() && found->is_array() && !found->empty(), "'{}' has no list of messages in a field '{}'",
          place, field);
  for (const nlohmann::json& message : *found) {
    Require(
        message.is_object() && message.contains("role") && message["role"].is_string() && message.contains("content"),
        "'{}': a message has no role or no content: {}", place, JsonText(message).substr(0, 80));
  }
  return nlohmann::ordered_json(*found);
}

// Parts are encoded one by one, as a model sees them: a question ends before its answer begins.
void EncodeConversation(const nlohmann::ordered_json& messages, const std::string& place, const Tokenizer& tokenizer,
                        const ChatTemplate& chat, EncodedBatch& encoded) {
  const ChatText text = chat.RenderAnswers(messages);
  Require(!text.answers.empty(), "'{}' has no message of the role 'assistant': there is nothing to learn", place);
  const auto add = [&](std::size_t begin, std::size_t end) {
    const std::size_t before = encoded.tokens.size();
    tokenizer.Encode(std::string_view(text.text).substr(begin, end - begin), encoded.tokens);
    const std::size_t count = encoded.tokens.size() - before;
    Require(count > 0, "'{}': an answer, or what precedes one, is empty", place);
    encoded.lengths.push_back(static_cast<std::int64_t>(count));
  };
  std::size_t at = 0;
  for (const auto& [begin, end] : text.answers) {
    add(at, begin);
    add(begin, end);
    at = end;
  }
  if (at < text.text.size()) {
    add(at, text.text.size());
  }
  encoded.document_ends.push_back(static_cast<std::int64_t>(encoded.lengths.size()));
}

EncodedBatch EncodeConversations(const TextBatch& batch, const std::string& path, const Tokenizer& tokenizer,
                                 const EncodeRules& rules) {
  EncodedBatch encoded;
  encoded.text_bytes = static_cast<std::int64_t>(batch.text.size());
  std::int64_t number = batch.begin.line;
  for (std::size_t begin = 0; begin < batch.text.size();) {
    const std::size_t end = std::min(batch.text.find('\n', begin), batch.text.size());
    const std::string_view line = std::string_view(batch.text).substr(begin, end - begin);
    begin = end + 1;
    const std::string place = fmt::format("{}:{}", path, ++number);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) {
      nlohmann::ordered_json messages;
      if (TryLine([&] { messages = MessagesOf(line, rules.json_field, place); },
                  rules.skip_damaged ? &encoded.damaged : nullptr)) {
        EncodeConversation(messages, place, tokenizer, *rules.chat, encoded);
      }
    }
  }
  return encoded;
}

}  // namespace

EncodedBatch EncodeBatch(const TextBatch& batch, const std::string& path, const Tokenizer& tokenizer,
                         const EncodeRules& rules) {
  if (batch.format == TextFormat::kChat) {
    return EncodeConversations(batch, path, tokenizer, rules);
  }
  EncodedBatch encoded;
  encoded.tokens.reserve(batch.text.size() / 3);
  encoded.text_bytes = static_cast<std::int64_t>(batch.text.size());
  const bool whole_file = batch.format == TextFormat::kText;
  const auto end_document = [&] { encoded.document_ends.push_back(static_cast<std::int64_t>(encoded.lengths.size())); };
  const auto encode = [&](std::string_view text) {
    const std::size_t before = encoded.tokens.size();
    tokenizer.Encode(text, encoded.tokens);
    const bool ends = !whole_file || batch.ends_file;
    const bool has_text = encoded.tokens.size() > before || (whole_file && batch.begin.offset > 0);
    if (!has_text) {
      return;
    }
    if (ends && rules.end_of_text.has_value()) {
      encoded.tokens.push_back(*rules.end_of_text);
    }
    if (encoded.tokens.size() > before) {
      encoded.lengths.push_back(static_cast<std::int64_t>(encoded.tokens.size() - before));
    }
    if (ends) {
      end_document();
    }
  };
  ForEachText(batch, path, rules.json_field, encode, rules.skip_damaged ? &encoded.damaged : nullptr);
  return encoded;
}

}  // namespace trireme
