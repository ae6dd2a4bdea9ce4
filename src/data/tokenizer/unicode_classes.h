// What the pre-tokenizers' patterns ask of a character, as one byte a code point: Unicode 16.0, filled from ICU
// and, where that is older, from a short list.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme {

enum CharacterClass : std::uint8_t {
  kLetter = 1,   // \p{L}
  kNumber = 2,   // \p{N}
  kSpace = 4,    // \s: White_Space
  kNewline = 8,  // \r or \n
  kStop = 16,    // what ends a piece of BLOOM's pattern: white space and .,!?…。，、।۔،()|
  kWord = 32,    // \w: alphabetic, marks, decimal digits, connectors, join controls
  kBeyond = 64,  // in the first 256 entries by byte: part of a longer UTF-8 character
};

// The two overlapping halves of letters and marks that Mistral Nemo's pattern speaks of.
enum CaseClass : std::uint8_t {
  kUpperHalf = 1,  // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
  kLowerHalf = 2,  // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
};

class UnicodeClasses {
 public:
  // The table, filled at the first call; it never changes.
  static const UnicodeClasses& Get();
  // Classes of a code point up to and including kIllFormed, which has none.
  std::uint8_t operator[](char32_t code) const { return classes_[code]; }
  // CaseClass of a code point, likewise.
  std::uint8_t CaseOf(char32_t code) const { return cases_[code]; }
  // Classes by the first byte of a character; kBeyond where more bytes must be looked at.
  const std::uint8_t* by_byte() const { return by_byte_.data(); }

 private:
  UnicodeClasses();

  std::vector<std::uint8_t> classes_;
  std::vector<std::uint8_t> cases_;
  std::vector<std::uint8_t> by_byte_;
};

}  // namespace trireme
