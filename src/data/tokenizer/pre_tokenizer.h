// Cuts text into the pieces that byte-pair merges never cross: hand-written matchers of the patterns of the known
// families, in linear time, with the results of a back-tracking regular-expression engine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/tokenizer/unicode_classes.h"

namespace trireme {

enum class SplitPattern : std::uint8_t {
  kNone,    // one piece
  kGpt2,    // 's|'t|… ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  kBloom,   //  ?[^(\s|[.,!?…。，、।۔،])]+ and what lies between
  kLlama3,  // (?i:'s|…)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  kQwen2,   // as Llama 3, digits one by one
  kTekken,  // Mistral Nemo's: words as "camelCase" has them, digits one by one
};

// The regular expression as tokenizer.json spells it.
std::string_view PatternText(SplitPattern pattern);
// The pattern that a regular expression of a tokenizer.json denotes; an Error lists what is known.
SplitPattern ParsePattern(std::string_view regular_expression);
// "gpt2", "bloom", "llama3", "qwen2", "tekken"; an Error names the nearest.
SplitPattern PatternByName(const std::string& name);

// End of the piece that starts at `begin`, which is before `end`. Bytes that are not UTF-8 count as symbols.
const char* PieceEnd(SplitPattern pattern, const UnicodeClasses& classes, const char* begin, const char* end);

}  // namespace trireme
