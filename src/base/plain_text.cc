#include "base/plain_text.h"

#include <fmt/format.h>

#include <cstdint>

namespace trireme {
namespace {

// The character that `text` starts with and its bytes; one byte and no character where it is no UTF-8.
struct Character {
  std::size_t bytes = 1;
  std::uint32_t code = 0;
  bool valid = false;
};

Character FirstOf(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint32_t first = byte(0);
  if (first < 0x80) {
    return {.bytes = 1, .code = first, .valid = true};
  }
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) {
    return {};
  }
  std::uint32_t code = first & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) {
      return {};
    }
    code = code << 6U | (byte(i) & 0x3fU);
  }
  static constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  const bool valid = code >= kLeast[bytes] && code <= 0x10ffff && !surrogate;
  return valid ? Character{.bytes = bytes, .code = code, .valid = true} : Character{};
}

bool TurnsDirection(std::uint32_t code) {
  return code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

std::string Cleaned(std::string_view text, std::string_view kept) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character character = FirstOf(text);
    const bool control = character.code < 0x20 || (character.code >= 0x7f && character.code < 0xa0);
    if (!character.valid) {
      out += fmt::format("\\x{:02x}", static_cast<std::uint8_t>(text[0]));
    } else if ((control && kept.find(text[0]) == std::string_view::npos) || TurnsDirection(character.code)) {
      out += fmt::format("\\u{:04x}", character.code);
    } else {
      out += text.substr(0, character.bytes);
    }
    text.remove_prefix(character.bytes);
  }
  return out;
}

}  // namespace

std::string PlainText(std::string_view text) { return Cleaned(text, "\n\t"); }

std::string PlainLine(std::string_view text) { return Cleaned(text, ""); }

void Print(std::FILE* stream, std::string_view text) {
  const std::string plain = PlainText(text);
  std::fwrite(plain.data(), 1, plain.size(), stream);
}

}  // namespace trireme
