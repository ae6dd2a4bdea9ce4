#include "data/tokenizer/unicode_classes.h"

#include <unicode/uchar.h>

#include <algorithm>

#include "data/tokenizer/utf8.h"

namespace trireme {
namespace {

struct ClassRange {
  char32_t first;
  char32_t last;
  CharacterClass added;
};

// Letters and numbers that Unicode 15.1 and 16.0 added. Tokenizers' libraries have them; the ICU of a stable system may
// be older.
constexpr ClassRange kNewerLetters[] = {
    {0x1c89, 0x1c8a, kLetter},   {0xa7cb, 0xa7cd, kLetter},   {0xa7da, 0xa7dc, kLetter},   {0x105c0, 0x105f3, kLetter},
    {0x10d40, 0x10d49, kNumber}, {0x10d4a, 0x10d65, kLetter}, {0x10d6f, 0x10d85, kLetter}, {0x10ec2, 0x10ec4, kLetter},
    {0x11380, 0x11389, kLetter}, {0x1138b, 0x1138b, kLetter}, {0x1138e, 0x1138e, kLetter}, {0x11390, 0x113b5, kLetter},
    {0x113b7, 0x113b7, kLetter}, {0x113d1, 0x113d1, kLetter}, {0x113d3, 0x113d3, kLetter}, {0x116d0, 0x116e3, kNumber},
    {0x11bc0, 0x11be0, kLetter}, {0x11bf0, 0x11bf9, kNumber}, {0x13460, 0x143fa, kLetter}, {0x16100, 0x1611d, kLetter},
    {0x16130, 0x16139, kNumber}, {0x16d40, 0x16d6c, kLetter}, {0x16d70, 0x16d79, kNumber}, {0x18cff, 0x18cff, kLetter},
    {0x1ccf0, 0x1ccf9, kNumber}, {0x1e5d0, 0x1e5ed, kLetter}, {0x1e5f0, 0x1e5f0, kLetter}, {0x1e5f1, 0x1e5fa, kNumber},
    {0x2ebf0, 0x2ee5d, kLetter}};

// Those of them that are capital or small, and marks; the other letters are neither. `added` as CaseClass.
struct CaseRange {
  char32_t first;
  char32_t last;
  CaseClass added;
};
constexpr CaseRange kNewerCases[] = {
    {0x1c89, 0x1c89, kUpperHalf}, {0x1c8a, 0x1c8a, kLowerHalf},   {0xa7cb, 0xa7cc, kUpperHalf},
    {0xa7cd, 0xa7cd, kLowerHalf}, {0xa7da, 0xa7da, kUpperHalf},   {0xa7db, 0xa7db, kLowerHalf},
    {0xa7dc, 0xa7dc, kUpperHalf}, {0x10d50, 0x10d65, kUpperHalf}, {0x10d70, 0x10d85, kLowerHalf}};

// Later characters count as unassigned, so that ids do not depend on the version of ICU.
bool IsLaterThanUnicode16(UChar32 code) {
  UVersionInfo age;
  u_charAge(code, age);
  return age[0] > 16;
}

std::uint8_t Classify(UChar32 code) {
  if (IsLaterThanUnicode16(code)) {
    return 0;
  }
  const auto category = static_cast<std::uint32_t>(U_MASK(u_charType(code)));
  std::uint8_t classes = 0;
  if ((category & U_GC_L_MASK) != 0) {
    classes |= kLetter;
  }
  if ((category & U_GC_N_MASK) != 0) {
    classes |= kNumber;
  }
  if (u_isUWhiteSpace(code)) {
    classes |= kSpace | kStop;
  }
  if (code == '\r' || code == '\n') {
    classes |= kNewline;
  }
  if ((category & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0 || u_hasBinaryProperty(code, UCHAR_ALPHABETIC) ||
      u_hasBinaryProperty(code, UCHAR_JOIN_CONTROL)) {
    classes |= kWord;
  }
  return classes;
}

std::uint8_t CaseClassOf(UChar32 code) {
  if (IsLaterThanUnicode16(code)) {
    return 0;
  }
  const auto category = static_cast<std::uint32_t>(U_MASK(u_charType(code)));
  const bool neither = (category & (U_GC_LM_MASK | U_GC_LO_MASK | U_GC_M_MASK)) != 0;
  const bool upper = neither || (category & (U_GC_LU_MASK | U_GC_LT_MASK)) != 0;
  const bool lower = neither || (category & U_GC_LL_MASK) != 0;
  return static_cast<std::uint8_t>((upper ? kUpperHalf : 0) | (lower ? kLowerHalf : 0));
}

}  // namespace

const UnicodeClasses& UnicodeClasses::Get() {
  static const UnicodeClasses classes;
  return classes;
}

UnicodeClasses::UnicodeClasses() : classes_(kIllFormed + 1), cases_(kIllFormed + 1), by_byte_(256, kBeyond) {
  for (char32_t code = 0; code < kIllFormed; ++code) {
    classes_[code] = Classify(static_cast<UChar32>(code));
    cases_[code] = CaseClassOf(static_cast<UChar32>(code));
  }
  for (const ClassRange& range : kNewerLetters) {
    for (char32_t code = range.first; code <= range.last; ++code) {
      classes_[code] |= range.added | kWord;
      cases_[code] = range.added == kLetter ? kUpperHalf | kLowerHalf : 0;
    }
  }
  for (const CaseRange& range : kNewerCases) {
    std::fill(cases_.begin() + range.first, cases_.begin() + range.last + 1, range.added);
  }
  for (const char32_t stop : U".,!?…。，、।۔،()|") {
    classes_[stop] |= stop == 0 ? 0 : kStop;
  }
  std::copy_n(classes_.begin(), 128, by_byte_.begin());
}

}  // namespace trireme
