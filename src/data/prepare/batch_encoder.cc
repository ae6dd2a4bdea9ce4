#include "data/prepare/batch_encoder.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/files/json_file.h"

namespace trireme {

std::string DocumentOfJson(std::string_view line, const std::string& field, const std::string& path,
                           std::int64_t number) {
  const std::string place = fmt::format("{}:{}", path, number);
  nlohmann::json json = ParseHostileJson(line, place);
  Require(json.is_object(), "'{}' is not a JSON object", place);
  const auto found = json.find(field);
  Require(found != json.end() && found->is_string(), "'{}' has no text in a field '{}'", place, field);
  return std::move(found->get_ref<std::string&>());
}

EncodedBatch EncodeBatch(const TextBatch& batch, const std::string& path, const Tokenizer& tokenizer,
                         const EncodeRules& rules) {
  EncodedBatch encoded;
  encoded.tokens.reserve(batch.text.size() / 3);
  encoded.text_bytes = static_cast<std::int64_t>(batch.text.size());
  const bool whole_file = batch.format == TextFormat::kText;
  const auto end_document = [&] { encoded.document_ends.push_back(static_cast<std::int64_t>(encoded.lengths.size())); };
  ForEachText(batch, path, rules.json_field, [&](std::string_view text) {
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
  });
  return encoded;
}

}  // namespace trireme
