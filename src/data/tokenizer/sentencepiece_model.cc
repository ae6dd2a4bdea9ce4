#include "data/tokenizer/sentencepiece_model.h"

#include <cstddef>
#include <limits>

#include "base/error.h"
#include "data/files/json_file.h"

namespace trireme {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 28;

std::uint32_t WordAt(std::string_view bytes, std::size_t place) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    word |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(bytes[place + i])) << (8 * i);
  }
  return word;
}

// A character map: the bytes of its trie as a number of four bytes, the trie, and texts that end with a zero. The trie
// is a double array (Darts): unit i leads to its children at i ^ offset ^ letter, and to the place of a text where it
// ends.
void RequireSoundCharacterMap(std::string_view map) {
  if (map.empty()) {
    return;
  }
  constexpr std::size_t kHead = 4;
  Require(map.size() > kHead, "its character map has {} bytes", map.size());
  const std::size_t trie_bytes = WordAt(map, 0);
  Require(trie_bytes >= 4 && trie_bytes % 4 == 0 && trie_bytes < map.size() - kHead,
          "the trie of its character map has {} bytes of {}", trie_bytes, map.size() - kHead);
  const std::string_view trie = map.substr(kHead, trie_bytes);
  const std::string_view texts = map.substr(kHead + trie_bytes);
  Require(texts.back() == '\0', "the texts of its character map have no end");
  const std::size_t units = trie_bytes / 4;
  constexpr std::uint32_t kLeaf = std::uint32_t{1} << 31;
  for (std::size_t i = 0; i < units; ++i) {
    const std::uint32_t unit = WordAt(trie, 4 * i);
    if (i > 0 && (unit & kLeaf) != 0) {
      continue;  // the place of a text, which no letter leads on from
    }
    const std::size_t offset = static_cast<std::size_t>(unit >> 10U) << ((unit & (1U << 9U)) >> 6U);
    const std::size_t children = i ^ offset;
    Require((children | 0xffU) < units, "unit {} of its character map leads outside of it", i);
    const bool ends_here = (unit & (1U << 8U)) != 0;
    Require(!ends_here || (WordAt(trie, 4 * children) & ~kLeaf) < texts.size(),
            "unit {} of its character map names a text outside of it", i);
  }
}

}  // namespace

bool ProtoReader::Next(ProtoField& field) {
  if (rest_.empty()) {
    return false;
  }
  const std::uint64_t tag = Varint();
  Require(tag <= std::numeric_limits<std::uint32_t>::max(), "a field has a number beyond its kind");
  field = {.number = tag >> 3U};
  constexpr std::uint64_t kVarint = 0;
  constexpr std::uint64_t kLong = 1;
  constexpr std::uint64_t kBytes = 2;
  constexpr std::uint64_t kShort = 5;
  switch (tag & 7U) {
    case kVarint:
      field.value = Varint();
      break;
    case kBytes:
      field.bytes = Take(Varint());
      break;
    case kLong:
      Take(8);
      break;
    case kShort:
      Take(4);
      break;
    default:
      Fail("a field is of the kind {}", tag & 7U);
  }
  return true;
}

std::uint64_t ProtoReader::Varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; !rest_.empty() && shift < 64; shift += 7) {
    const auto byte = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
    if (byte < 0x80U) {
      return value;
    }
  }
  Fail("a number has no end");
}

std::string_view ProtoReader::Take(std::uint64_t count) {
  Require(count <= rest_.size(), "a field of {} bytes has {}", count, rest_.size());
  const std::string_view taken = rest_.substr(0, count);
  rest_.remove_prefix(taken.size());
  return taken;
}

ProtoField InnerField(std::string_view model, std::uint64_t message, std::uint64_t number, ProtoField otherwise) {
  ProtoField outer;
  for (ProtoReader fields(model); fields.Next(outer);) {
    ProtoField inner;
    for (ProtoReader own(outer.number == message ? outer.bytes : std::string_view()); own.Next(inner);) {
      otherwise = inner.number == number ? inner : otherwise;
    }
  }
  return otherwise;
}

std::uint64_t InnerNumber(std::string_view model, std::uint64_t message, std::uint64_t number,
                          std::uint64_t otherwise) {
  return InnerField(model, message, number, {.value = otherwise}).value;
}

void RequireSoundSentencePieceModel(std::string_view model, const std::string& origin) {
  try {
    ProtoField outer;
    for (ProtoReader fields(model); fields.Next(outer);) {
      const bool normalizes = outer.number == kNormalizerField || outer.number == kDenormalizerField;
      ProtoField inner;
      for (ProtoReader own(normalizes ? outer.bytes : std::string_view()); own.Next(inner);) {
        if (inner.number == kCharacterMapField) {
          RequireSoundCharacterMap(inner.bytes);
        }
      }
    }
  } catch (const Error& error) {
    Fail("'{}' is not a SentencePiece model: {}", origin, error.what());
  }
}

std::string ReadSentencePieceModel(const std::string& path) {
  std::string model = ReadBoundedFile(path, kMostBytes);
  RequireSoundSentencePieceModel(model, path);
  return model;
}

}  // namespace trireme
