// Tokens that are found in the text itself, before any splitting: special tokens and those a user added. The rules are
// those of Hugging Face's AddedVocabulary: leftmost match, longest first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/tokenizer/unicode_classes.h"

namespace trireme {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool single_word = false;  // only between characters that are no part of a word
  bool strip_left = false;   // takes the white space before it
  bool strip_right = false;
  bool normalized = false;  // looked for in the normalised text
  bool special = false;
};

// A stretch of text: a token's (id >= 0) or one that is still to be split (id < 0).
struct TextSpan {
  std::int32_t id = -1;
  std::string_view text;
};

class AddedTokenMatcher {
 public:
  // Looks for the tokens of `tokens`; an empty list matches nothing. `classes` must outlive the matcher.
  AddedTokenMatcher(std::vector<AddedToken> tokens, const UnicodeClasses& classes);
  bool empty() const { return tokens_.empty(); }
  // Cuts `text` into spans that cover it (white space that a token strips belongs to that token). Empty spans of text
  // are left out.
  std::vector<TextSpan> Split(std::string_view text) const;

 private:
  // Token that matches at `at`, the longest; null if none.
  const AddedToken* MatchAt(std::string_view text, std::size_t at) const;
  bool StandsAlone(std::string_view text, std::size_t begin, std::size_t end) const;
  // Where the spaces before `at` begin, `least` at the least.
  std::size_t SpacesBefore(std::string_view text, std::size_t at, std::size_t least) const;
  std::size_t SpacesAfter(std::string_view text, std::size_t at) const;

  std::vector<AddedToken> tokens_;
  const UnicodeClasses& classes_;
  bool starts_[256] = {};
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;  // (node, byte) to node; node 0 is the root
  std::vector<std::int32_t> accepts_;                       // index of the token that ends in a node, or -1
};

}  // namespace trireme
