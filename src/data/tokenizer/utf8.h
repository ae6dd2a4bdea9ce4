// UTF-8 one character at a time over text that may be ill-formed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

struct Utf8Character {
  char32_t code = 0;  // kIllFormed for bytes that are no character
  int length = 0;     // bytes; for ill-formed ones those that decoders replace by a single U+FFFD
};
inline constexpr char32_t kIllFormed = 0x110000;

// The character at `begin`, which is before `end`.
Utf8Character DecodeUtf8(const char* begin, const char* end);
// The last character of [begin, end), which is not empty; an ill-formed end counts as one byte.
Utf8Character DecodeUtf8Before(const char* begin, const char* end);

bool IsWellFormedUtf8(std::string_view text);
// The text with each ill-formed stretch replaced by U+FFFD, as the WHATWG's decoder and Python's "replace" do it.
std::string ReplaceIllFormedUtf8(std::string_view text);

void AppendUtf8(char32_t code, std::string& text);

// Every occurrence of `from`, which is not empty, replaced by `to`, from left to right.
std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to);

}  // namespace trireme
