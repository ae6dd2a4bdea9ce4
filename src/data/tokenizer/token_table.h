// A tokenizer as a table of tokens, for files of other programs that hold a tokenizer whole (GGUF).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer/pre_tokenizer.h"

namespace trireme {

enum class TokenRole : std::uint8_t { kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };

struct TableToken {
  std::string text;  // as vocabularies write it
  float score = 0;   // of a SentencePiece token: the higher is merged first; of unigrams the log of its probability
  TokenRole kind = TokenRole::kNormal;
};

struct TokenTable {
  bool sentence_pieces = false;     // characters merged by score; otherwise bytes, merged by `merges`
  bool unigrams = false;            // sentence_pieces, of which the most probable sequence is taken
  std::vector<TableToken> tokens;   // by id; an id that no token has is kUnused
  std::vector<std::string> merges;  // "left right", best first
  SplitPattern pattern = SplitPattern::kGpt2;
  bool ignore_merges = false;
  bool normalizes = false;    // changes the text before it is cut (NFC and others)
  std::string character_map;  // by which a SentencePiece model normalises, as its file holds it; empty: it does not
  bool add_prefix_space = false;
  bool remove_extra_spaces = false;
  std::optional<std::int32_t> beginning;
  std::optional<std::int32_t> end;
  std::optional<std::int32_t> unknown;
  std::optional<std::int32_t> padding;
  bool add_beginning = false;  // put before a text that a model is to read
  bool add_end = false;
  std::string chat_template;
};

// `path` as LoadTokenizer takes it, for a model of this vocabulary: an id beyond it is an Error.
TokenTable ReadTokenTable(const std::string& path, std::int64_t vocabulary);

}  // namespace trireme
