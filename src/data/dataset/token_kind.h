// How Megatron's indexed datasets store a token: the code in the .idx header and the bytes in the .bin file.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace trireme {

// Values are the codes of the file format. Codes 6 and 7 are floating point, which tokens are not.
enum class TokenKind : std::uint8_t { kUInt8 = 1, kInt8 = 2, kInt16 = 3, kInt32 = 4, kInt64 = 5, kUInt16 = 8 };

std::string_view Name(TokenKind kind);
std::int64_t SizeOf(TokenKind kind);
// One more than the largest token that fits (and that an int32 holds).
std::int64_t TokenLimit(TokenKind kind);
// What Megatron-LM would choose: 16 bits below 65,500 tokens, else 32.
TokenKind TokenKindFor(std::int64_t vocabulary);

// Stored bytes (little endian) to tokens. A 64-bit value that no int32 holds becomes -1, which no vocabulary has.
void DecodeTokens(TokenKind kind, std::span<const std::byte> stored, std::span<std::int32_t> tokens);
// Tokens to stored bytes. An Error names the first token that does not fit.
void EncodeTokens(TokenKind kind, std::span<const std::int32_t> tokens, std::span<std::byte> stored);

}  // namespace trireme
