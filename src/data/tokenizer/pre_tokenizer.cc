#include "data/tokenizer/pre_tokenizer.h"

#include <array>
#include <utility>

#include "base/error.h"
#include "data/tokenizer/utf8.h"

namespace trireme {
namespace {

constexpr std::array<std::pair<SplitPattern, std::string_view>, 5> kPatterns = {{
    {SplitPattern::kGpt2, R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {SplitPattern::kBloom, R"( ?[^(\s|[.,!?…。，、।۔،])]+)"},
    {SplitPattern::kLlama3,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitPattern::kQwen2,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitPattern::kTekken,
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
}};
constexpr std::array<const char*, 5> kPatternNames = {"gpt2", "bloom", "llama3", "qwen2", "tekken"};

class Matcher {
 public:
  Matcher(const UnicodeClasses& classes, const char* end) : classes_(classes), by_byte_(classes.by_byte()), end_(end) {}

  // Classes of the character at `at` (before the end) and where the next one starts.
  std::pair<std::uint8_t, const char*> Look(const char* at) const {
    const std::uint8_t classes = by_byte_[static_cast<std::uint8_t>(*at)];
    if ((classes & kBeyond) == 0) {
      return {classes, at + 1};
    }
    const Utf8Character character = DecodeUtf8(at, end_);
    return {classes_[character.code], at + character.length};
  }

  // Skips characters that have (or, if `without`, have none of) the classes in `mask`.
  template <bool without = false>
  const char* Skip(const char* at, std::uint8_t mask) const {
    while (at < end_) {
      const auto [classes, next] = Look(at);
      if (((classes & mask) != 0) == without) {
        break;
      }
      at = next;
    }
    return at;
  }

  const char* SkipSymbols(const char* at) const { return Skip<true>(at, kSpace | kLetter | kNumber); }

  // 's 't 're 've 'm 'll 'd after the apostrophe at `at`; null if none follows.
  const char* Contraction(const char* at, bool any_case) const {
    const std::ptrdiff_t room = end_ - at - 1;
    if (room < 1) {
      return nullptr;
    }
    const auto lower = [&](std::ptrdiff_t i) {
      const char c = at[i];
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    };
    const char first = lower(1);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') {
      return at + 2;
    }
    if (room >= 2) {
      const char second = lower(2);
      if (((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l')) {
        return at + 3;
      }
      // U+017F, the long s, folds to s.
      if (any_case && at[1] == '\xc5' && at[2] == '\xbf') {
        return at + 3;
      }
    }
    return nullptr;
  }

  // \s+(?!\S)|\s+ : a run of white space leaves its last character to what follows, unless it has only that one.
  const char* Spaces(const char* begin) const {
    const char* at = begin;
    const char* last = begin;
    while (at < end_) {
      const auto [classes, next] = Look(at);
      if ((classes & kSpace) == 0) {
        return last > begin ? last : at;
      }
      last = at;
      at = next;
    }
    return at;
  }

  const char* Gpt2(const char* begin) const {
    if (*begin == '\'') {
      if (const char* end = Contraction(begin, false)) {
        return end;
      }
    }
    const char* start = *begin == ' ' && begin + 1 < end_ ? begin + 1 : begin;
    const auto [classes, next] = Look(start);
    if ((classes & kLetter) != 0) {
      return Skip(next, kLetter);
    }
    if ((classes & kNumber) != 0) {
      return Skip(next, kNumber);
    }
    return (classes & kSpace) == 0 ? SkipSymbols(next) : Spaces(begin);
  }

  const char* Bloom(const char* begin) const {
    const auto starts_word = [&](const char* at) {
      const char* start = *at == ' ' && at + 1 < end_ ? at + 1 : at;
      return (Look(start).first & kStop) == 0;
    };
    if (starts_word(begin)) {
      return Skip<true>(*begin == ' ' ? begin + 1 : begin, kStop);
    }
    const char* at = Look(begin).second;
    while (at < end_ && !starts_word(at)) {
      at = Look(at).second;
    }
    return at;
  }

  // \s*[\r\n]+ : up to the last line break of the run of white space; null if it has none.
  const char* Lines(const char* begin) const {
    const char* found = nullptr;
    for (const char* at = begin; at < end_;) {
      const auto [classes, next] = Look(at);
      if ((classes & kSpace) == 0) {
        break;
      }
      at = next;
      if ((classes & kNewline) != 0) {
        found = at;
      }
    }
    return found;
  }

  const char* Digits(const char* at, int most) const {
    for (int count = 0; count < most && at < end_; ++count) {
      const auto [classes, next] = Look(at);
      if ((classes & kNumber) == 0) {
        break;
      }
      at = next;
    }
    return at;
  }

  const char* Llama3(const char* begin, int digits) const {
    if (*begin == '\'') {
      if (const char* end = Contraction(begin, true)) {
        return end;
      }
    }
    const auto [classes, next] = Look(begin);
    if ((classes & kLetter) != 0) {
      return Skip(next, kLetter);
    }
    if ((classes & kNumber) != 0) {
      return Digits(begin, digits);
    }
    const std::uint8_t after = next < end_ ? Look(next).first : static_cast<std::uint8_t>(kSpace);
    if ((classes & kNewline) == 0 && (after & kLetter) != 0) {
      return Skip(next, kLetter);
    }
    if ((classes & kSpace) == 0 || (*begin == ' ' && (after & (kSpace | kNumber)) == 0)) {
      return Skip(SkipSymbols(next), kNewline);
    }
    if (const char* end = Lines(begin)) {
      return end;
    }
    return Spaces(begin);
  }

  // [upper half]*[lower half]+ from `start` (or, without `lower`, [upper half]+[lower half]*); null if none.
  const char* CasedWord(const char* start, bool lower) const {
    const char* at = start;
    const char* both = nullptr;  // after the last character that is of either half
    while (at < end_) {
      const Utf8Character character = DecodeUtf8(at, end_);
      const std::uint8_t halves = classes_.CaseOf(character.code);
      if ((halves & kUpperHalf) == 0) {
        break;
      }
      at += character.length;
      both = (halves & kLowerHalf) != 0 ? at : both;
    }
    const char* const upper_end = at;
    while (at < end_) {
      const Utf8Character character = DecodeUtf8(at, end_);
      if ((classes_.CaseOf(character.code) & kLowerHalf) == 0) {
        break;
      }
      at += character.length;
    }
    if (!lower) {
      return upper_end > start ? at : nullptr;
    }
    // Without small letters behind it the first half gives back up to its last character that may be of the second.
    return at > upper_end ? at : both;
  }

  const char* Tekken(const char* begin) const {
    const auto [classes, next] = Look(begin);
    const bool may_lead = (classes & (kNewline | kLetter | kNumber)) == 0;
    for (const bool lower : {true, false}) {
      for (const char* start : {next, begin}) {
        const char* const end = start == begin || may_lead ? CasedWord(start, lower) : nullptr;
        if (end != nullptr) {
          return end;
        }
      }
    }
    if ((classes & kNumber) != 0) {
      return next;
    }
    const std::uint8_t after = next < end_ ? Look(next).first : static_cast<std::uint8_t>(kSpace);
    if ((classes & kSpace) == 0 || (*begin == ' ' && (after & (kSpace | kLetter | kNumber)) == 0)) {
      const char* at = SkipSymbols(next);
      while (at < end_ && (*at == '\r' || *at == '\n' || *at == '/')) {
        ++at;
      }
      return at;
    }
    if (const char* end = Lines(begin)) {
      return end;
    }
    return Spaces(begin);
  }

 private:
  const UnicodeClasses& classes_;
  const std::uint8_t* by_byte_;
  const char* end_;
};

}  // namespace

std::string_view PatternText(SplitPattern pattern) {
  for (const auto& [known, text] : kPatterns) {
    if (known == pattern) {
      return text;
    }
  }
  return "";
}

SplitPattern ParsePattern(std::string_view regular_expression) {
  for (const auto& [pattern, text] : kPatterns) {
    if (text == regular_expression) {
      return pattern;
    }
  }
  Fail("the pre-tokenizer pattern '{}' is none of those known (GPT-2, BLOOM, Llama 3, Qwen 2, Mistral Nemo)",
       regular_expression);
}

SplitPattern PatternByName(const std::string& name) {
  for (std::size_t i = 0; i < kPatterns.size(); ++i) {
    if (name == kPatternNames[i]) {
      return kPatterns[i].first;
    }
  }
  Fail("unknown pattern '{}': it is gpt2, bloom, llama3, qwen2 or tekken{}", name, NearestMatch(name, kPatternNames));
}

const char* PieceEnd(SplitPattern pattern, const UnicodeClasses& classes, const char* begin, const char* end) {
  const Matcher matcher(classes, end);
  switch (pattern) {
    case SplitPattern::kNone:
      return end;
    case SplitPattern::kGpt2:
      return matcher.Gpt2(begin);
    case SplitPattern::kBloom:
      return matcher.Bloom(begin);
    case SplitPattern::kLlama3:
      return matcher.Llama3(begin, 3);
    case SplitPattern::kQwen2:
      return matcher.Llama3(begin, 1);
    case SplitPattern::kTekken:
      return matcher.Tekken(begin);
  }
  return end;
}

}  // namespace trireme
