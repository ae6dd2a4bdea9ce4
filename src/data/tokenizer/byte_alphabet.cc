#include "data/tokenizer/byte_alphabet.h"

#include "data/tokenizer/utf8.h"

namespace trireme {
namespace {

constexpr char32_t kFirstExtra = 256;

constexpr bool IsPrintable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
}

constexpr std::array<char32_t, 256> MakeByteCharacters() {
  std::array<char32_t, 256> characters{};
  char32_t extra = kFirstExtra;
  for (int byte = 0; byte < 256; ++byte) {
    characters[static_cast<std::size_t>(byte)] = IsPrintable(byte) ? static_cast<char32_t>(byte) : extra++;
  }
  return characters;
}

constexpr std::array<char32_t, 256> kByteCharacters = MakeByteCharacters();

// Byte of each character below 324, or -1.
constexpr std::array<int, 324> MakeCharacterBytes() {
  std::array<int, 324> bytes{};
  bytes.fill(-1);
  for (int byte = 0; byte < 256; ++byte) {
    bytes[kByteCharacters[static_cast<std::size_t>(byte)]] = byte;
  }
  return bytes;
}

constexpr std::array<int, 324> kCharacterBytes = MakeCharacterBytes();

}  // namespace

const std::array<char32_t, 256>& ByteCharacters() { return kByteCharacters; }

std::string BytesToText(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    AppendUtf8(kByteCharacters[static_cast<std::uint8_t>(byte)], text);
  }
  return text;
}

std::string TextToBytes(std::string_view text) {
  std::string bytes;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    const Utf8Character character = DecodeUtf8(at, end);
    if (character.code >= kCharacterBytes.size() || kCharacterBytes[character.code] < 0) {
      return std::string(text);
    }
    bytes += static_cast<char>(kCharacterBytes[character.code]);
    at += character.length;
  }
  return bytes;
}

}  // namespace trireme
