#include "data/dataset/token_kind.h"

#include <cassert>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/platform.h"  // for the byte order

namespace trireme {

namespace {

template <typename Visitor>
void Visit(TokenKind kind, const Visitor& visitor) {
  switch (kind) {
    case TokenKind::kUInt8:
      return visitor(std::uint8_t{});
    case TokenKind::kInt8:
      return visitor(std::int8_t{});
    case TokenKind::kInt16:
      return visitor(std::int16_t{});
    case TokenKind::kInt32:
      return visitor(std::int32_t{});
    case TokenKind::kInt64:
      return visitor(std::int64_t{});
    case TokenKind::kUInt16:
      return visitor(std::uint16_t{});
  }
}

}  // namespace

std::string_view Name(TokenKind kind) {
  switch (kind) {
    case TokenKind::kUInt8:
      return "uint8";
    case TokenKind::kInt8:
      return "int8";
    case TokenKind::kInt16:
      return "int16";
    case TokenKind::kInt32:
      return "int32";
    case TokenKind::kInt64:
      return "int64";
    case TokenKind::kUInt16:
      return "uint16";
  }
  return "?";
}

std::int64_t SizeOf(TokenKind kind) {
  std::int64_t size = 0;
  Visit(kind, [&](auto value) { size = sizeof(value); });
  return size;
}

std::int64_t TokenLimit(TokenKind kind) {
  std::int64_t limit = 0;
  Visit(kind, [&](auto value) {
    using Stored = decltype(value);
    constexpr auto kMost = static_cast<std::int64_t>(std::numeric_limits<Stored>::max());
    constexpr auto kInt32Most = static_cast<std::int64_t>(std::numeric_limits<std::int32_t>::max());
    limit = (kMost < kInt32Most ? kMost : kInt32Most) + 1;
  });
  return limit;
}

TokenKind TokenKindFor(std::int64_t vocabulary) {
  return vocabulary > 0 && vocabulary < 65500 ? TokenKind::kUInt16 : TokenKind::kInt32;
}

void DecodeTokens(TokenKind kind, std::span<const std::byte> stored, std::span<std::int32_t> tokens) {
  assert(static_cast<std::int64_t>(stored.size()) == static_cast<std::int64_t>(tokens.size()) * SizeOf(kind));
  Visit(kind, [&](auto value) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      std::memcpy(&value, stored.data() + i * sizeof(value), sizeof(value));
      const bool fits = sizeof(value) <= 4 || static_cast<std::int64_t>(value) == static_cast<std::int32_t>(value);
      tokens[i] = fits ? static_cast<std::int32_t>(value) : -1;
    }
  });
}

void EncodeTokens(TokenKind kind, std::span<const std::int32_t> tokens, std::span<std::byte> stored) {
  assert(static_cast<std::int64_t>(stored.size()) == static_cast<std::int64_t>(tokens.size()) * SizeOf(kind));
  Visit(kind, [&](auto value) {
    using Stored = decltype(value);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      value = static_cast<Stored>(tokens[i]);
      Require(static_cast<std::int64_t>(value) == tokens[i], "token {} does not fit {}", tokens[i], Name(kind));
      std::memcpy(stored.data() + i * sizeof(value), &value, sizeof(value));
    }
  });
}

}  // namespace trireme
