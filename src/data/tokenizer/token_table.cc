#include "data/tokenizer/token_table.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/sentencepiece_tokenizer.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_config.h"
#include "data/tokenizer/tokenizer_files.h"
#include "data/tokenizer/tokenizer_folder.h"

namespace trireme {
namespace {

// The token of this id, the table made long enough.
TableToken& Slot(TokenTable& table, const std::string& content, std::int32_t id, std::int64_t vocabulary) {
  Require(id >= 0 && id < vocabulary, "the token '{}' has id {}, beyond the model's vocabulary of {}", content, id,
          vocabulary);
  const auto index = static_cast<std::size_t>(id);
  while (table.tokens.size() <= index) {
    table.tokens.push_back({.kind = TokenRole::kUnused});
  }
  return table.tokens[index];
}

TokenTable BytesTable() {
  TokenTable table;
  for (int byte = 0; byte < 256; ++byte) {
    table.tokens.push_back({.text = BytesToText(std::string(1, static_cast<char>(byte)))});
  }
  return table;
}

// The tokenizer as SentencePiece would store it: a token that is merged earlier scores higher.
void MakeSentencePieces(const BpeDescription& description, TokenTable& table) {
  table.sentence_pieces = true;
  std::map<std::string, float> scores;
  for (const auto& [left, right] : description.vocabulary.merges) {
    scores.emplace(left + right, -static_cast<float>(scores.size()));
  }
  for (TableToken& token : table.tokens) {
    if (const auto found = scores.find(token.text); found != scores.end()) {
      token.score = found->second;
    }
    const bool byte = token.text.size() == 6 && token.text.starts_with("<0x") && token.text.ends_with('>');
    if (token.kind == TokenRole::kNormal && byte) {
      token.kind = TokenRole::kByte;
    }
    if (!description.vocabulary.unknown_token.empty() && token.text == description.vocabulary.unknown_token) {
      token.kind = TokenRole::kUnknown;
    }
  }
  table.merges.clear();
  table.add_prefix_space = description.characters->prepend != CharacterRules::Prepend::kNever;
}

TokenTable BytePairTable(const BpeDescription& description, std::int64_t vocabulary) {
  TokenTable table;
  for (const auto& [text, id] : description.vocabulary.tokens) {
    Slot(table, text, id, vocabulary) = {.text = text};
  }
  for (const auto& [left, right] : description.vocabulary.merges) {
    table.merges.push_back(left + " " + right);
  }
  for (const AddedToken& token : description.added_tokens) {
    Slot(table, token.content, token.id, vocabulary) = {
        .text = token.content, .kind = token.special ? TokenRole::kControl : TokenRole::kUserDefined};
  }
  if (description.characters.has_value()) {
    MakeSentencePieces(description, table);
  }
  table.pattern = description.pattern;
  table.ignore_merges = description.vocabulary.ignore_merges;
  table.normalizes = !description.normal_forms.empty();
  table.add_prefix_space = description.characters.has_value() ? table.add_prefix_space : description.add_prefix_space;
  if (!description.prefix.empty()) {
    table.beginning = description.prefix.front();
  }
  table.add_beginning = !description.prefix.empty();
  table.add_end = !description.suffix.empty();
  return table;
}

std::optional<std::int32_t> Find(const TokenTable& table, const std::string& text) {
  const auto found = std::find_if(table.tokens.begin(), table.tokens.end(), [&](const TableToken& token) {
    return token.kind != TokenRole::kUnused && token.text == text;
  });
  return text.empty() || found == table.tokens.end()
             ? std::nullopt
             : std::optional<std::int32_t>(static_cast<std::int32_t>(found - table.tokens.begin()));
}

void Name(const TokenTable& table, const std::string& text, std::optional<std::int32_t>& id) {
  if (const auto found = Find(table, text)) {
    id = found;
  }
}

void TakeConfig(const TokenizerConfig& config, std::int64_t vocabulary, TokenTable& table) {
  for (const auto& [id, token] : config.added) {
    TableToken& slot = Slot(table, token.content, id, vocabulary);
    if (slot.kind == TokenRole::kUnused) {
      slot = {.text = token.content, .kind = token.special ? TokenRole::kControl : TokenRole::kUserDefined};
    }
  }
  Name(table, config.beginning, table.beginning);
  Name(table, config.end, table.end);
  Name(table, config.unknown, table.unknown);
  Name(table, config.padding, table.padding);
  table.add_beginning = config.add_beginning.value_or(table.add_beginning) && table.beginning.has_value();
  table.add_end = config.add_end.value_or(table.add_end) && table.end.has_value();
  table.chat_template = config.chat_template;
}

}  // namespace

TokenTable ReadTokenTable(const std::string& path, std::int64_t vocabulary) {
  if (path == "bytes") {
    return BytesTable();
  }
  const std::string file = std::filesystem::is_directory(path) ? FindTokenizer(path) : path;
  Require(!file.empty(), "the directory '{}' has no tokenizer.json, vocab.json or tokenizer.model", path);
  const bool pieces = std::filesystem::path(file).filename() == "vocab.json";
  TokenTable table = file.ends_with(".model")
                         ? ReadSentencePieceTable(file)
                         : BytePairTable(pieces ? ReadVocabularyAndMerges(file) : ReadTokenizerJson(file), vocabulary);
  // What ends a document where no file says so: as this program's own Encode and Generate have it.
  if (!table.end.has_value()) {
    table.end = LoadTokenizer(file)->end_of_text();
  }
  TakeConfig(ReadTokenizerConfig(file), vocabulary, table);
  return table;
}

}  // namespace trireme
