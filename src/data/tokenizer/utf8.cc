#include "data/tokenizer/utf8.h"

#include <algorithm>

namespace trireme {

Utf8Character DecodeUtf8(const char* begin, const char* end) {
  const auto lead = static_cast<std::uint8_t>(*begin);
  if (lead < 0x80) {
    return {lead, 1};
  }
  if (lead < 0xc2 || lead > 0xf4) {
    return {kIllFormed, 1};
  }
  const int length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  char32_t code = lead & (0x7fU >> length);
  for (int i = 1; i < length; ++i) {
    if (begin + i == end) {
      return {kIllFormed, i};
    }
    const auto byte = static_cast<std::uint8_t>(begin[i]);
    // The first continuation byte alone tells overlong forms, surrogates and values beyond U+10FFFF.
    const std::uint8_t low = i > 1 ? 0x80 : lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const std::uint8_t high = i > 1 ? 0xbf : lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (byte < low || byte > high) {
      return {kIllFormed, i};
    }
    code = (code << 6) | (byte & 0x3fU);
  }
  return {code, length};
}

Utf8Character DecodeUtf8Before(const char* begin, const char* end) {
  for (std::ptrdiff_t back = 1; back <= std::min<std::ptrdiff_t>(4, end - begin); ++back) {
    const Utf8Character character = DecodeUtf8(end - back, end);
    if (character.code != kIllFormed && character.length == back) {
      return character;
    }
  }
  return {kIllFormed, 1};
}

bool IsWellFormedUtf8(std::string_view text) {
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    const Utf8Character character = DecodeUtf8(at, end);
    if (character.code == kIllFormed) {
      return false;
    }
    at += character.length;
  }
  return true;
}

std::string ReplaceIllFormedUtf8(std::string_view text) {
  std::string clean;
  clean.reserve(text.size() + 16);
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    const Utf8Character character = DecodeUtf8(at, end);
    if (character.code == kIllFormed) {
      clean += "\xef\xbf\xbd";
    } else {
      clean.append(at, static_cast<std::size_t>(character.length));
    }
    at += character.length;
  }
  return clean;
}

void AppendUtf8(char32_t code, std::string& text) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xc0 | (code >> 6));
    text += static_cast<char>(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    text += static_cast<char>(0xe0 | (code >> 12));
    text += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
    text += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    text += static_cast<char>(0xf0 | (code >> 18));
    text += static_cast<char>(0x80 | ((code >> 12) & 0x3f));
    text += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
    text += static_cast<char>(0x80 | (code & 0x3f));
  }
}

std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (std::size_t at = 0;;) {
    const std::size_t found = text.find(from, at);
    out += text.substr(at, found - at);
    if (found == std::string_view::npos) {
      return out;
    }
    out += to;
    at = found + from.size();
  }
}

}  // namespace trireme
