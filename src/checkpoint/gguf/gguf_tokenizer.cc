#include "checkpoint/gguf/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace trireme {
namespace {

// llama.cpp's name for a way to cut text before merging.
std::string CutName(const TokenTable& table) {
  switch (table.pattern) {
    case SplitPattern::kGpt2:
      return "gpt-2";
    case SplitPattern::kBloom:
      return "bloom";
    case SplitPattern::kLlama3:
      // One pattern under two names: the first takes whole tokens before it merges.
      return table.ignore_merges ? "llama-bpe" : "dbrx";
    case SplitPattern::kQwen2:
      return "qwen2";
    case SplitPattern::kTekken:
      return "tekken";
    case SplitPattern::kNone:
      break;
  }
  Fail("llama.cpp has no byte-level BPE that merges across a whole text, as this tokenizer does");
}

// llama.cpp takes token 11 (or 2) for the end of a text unless a file names another.
std::string NameAnEnd(TokenTable& table) {
  if (table.end.has_value()) {
    return "";
  }
  const auto unused = std::find_if(table.tokens.begin(), table.tokens.end(),
                                   [](const TableToken& token) { return token.kind == TokenRole::kUnused; });
  table.end = unused == table.tokens.end() ? 0 : static_cast<std::int32_t>(unused - table.tokens.begin());
  return fmt::format("; the tokenizer has no end of text, so token {} stands for it", *table.end);
}

void AddIds(const TokenTable& table, GgufHeader& header) {
  const auto add = [&](const char* name, const std::optional<std::int32_t>& id) {
    if (id.has_value()) {
      header.Count(std::string("tokenizer.ggml.") + name, *id);
    }
  };
  // Where none begins a text, its end does: llama.cpp would take token 11 (or 1).
  add("bos_token_id", table.beginning.has_value() ? table.beginning : table.end);
  add("eos_token_id", table.end);
  add("unknown_token_id", table.unknown);
  add("padding_token_id", table.padding);
  header.Flag("tokenizer.ggml.add_bos_token", table.add_beginning);
  header.Flag("tokenizer.ggml.add_eos_token", table.add_end);
  header.Flag("tokenizer.ggml.add_space_prefix", table.add_prefix_space);
}

// llama.cpp takes the most probable unigrams as SentencePiece does, and normalises by the same map; a character that no
// unigram has is the unknown token.
void AddUnigrams(const TokenTable& table, GgufHeader& header) {
  const bool bytes = std::any_of(table.tokens.begin(), table.tokens.end(),
                                 [](const TableToken& token) { return token.kind == TokenRole::kByte; });
  Require(!bytes,
          "llama.cpp spells no unknown characters in bytes where pieces are unigrams, as this tokenizer does "
          "(byte_fallback): such a text would get other tokens");
  if (!table.character_map.empty()) {
    header.Bytes("tokenizer.ggml.precompiled_charsmap", table.character_map);
  }
}

}  // namespace

std::string AddGgufTokenizer(TokenTable table, std::int64_t vocabulary, GgufHeader& header) {
  Require(static_cast<std::int64_t>(table.tokens.size()) <= vocabulary,
          "the tokenizer has {} tokens, but the model has a vocabulary of {}", table.tokens.size(), vocabulary);
  table.tokens.resize(static_cast<std::size_t>(vocabulary), {.kind = TokenRole::kUnused});
  std::vector<std::string> texts;
  std::vector<std::int32_t> kinds;
  std::vector<float> scores;
  for (const TableToken& token : table.tokens) {
    texts.push_back(token.kind == TokenRole::kUnused && token.text.empty() ? fmt::format("[PAD{}]", texts.size())
                                                                           : token.text);
    kinds.push_back(static_cast<std::int32_t>(token.kind) + 1);
    scores.push_back(token.score);
  }
  const std::string remark = NameAnEnd(table);
  header.Text("tokenizer.ggml.model", table.unigrams ? "t5" : (table.sentence_pieces ? "llama" : "gpt2"));
  header.Text("tokenizer.ggml.pre", table.sentence_pieces ? "default" : CutName(table));
  header.Texts("tokenizer.ggml.tokens", texts);
  if (table.sentence_pieces) {
    header.Numbers("tokenizer.ggml.scores", scores);
    header.Flag("tokenizer.ggml.remove_extra_whitespaces", table.remove_extra_spaces);
    if (table.unigrams) {
      AddUnigrams(table, header);
    }
  } else {
    header.Texts("tokenizer.ggml.merges", table.merges);
  }
  header.Integers("tokenizer.ggml.token_type", kinds);
  AddIds(table, header);
  if (!table.chat_template.empty()) {
    header.Text("tokenizer.chat_template", table.chat_template);
  }
  return remark + (table.normalizes && !table.unigrams
                       ? "; llama.cpp does not normalise text as the tokenizer does (NFC and others)"
                       : "");
}

void AddNoGgufTokenizer(GgufHeader& header) { header.Text("tokenizer.ggml.model", "none"); }

}  // namespace trireme
