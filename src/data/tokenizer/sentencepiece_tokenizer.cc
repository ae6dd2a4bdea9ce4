#include "data/tokenizer/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include "base/error.h"
#include "data/files/json_file.h"
#include "data/tokenizer/utf8.h"

namespace trireme {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 28;

class SentencePieceTokenizer final : public Tokenizer {
 public:
  using Tokenizer::Encode;

  SentencePieceTokenizer(const std::string& path, const TokenizerOptions& options)
      : path_(path), replace_ill_formed_(options.replace_ill_formed) {
    const auto status = processor_.LoadFromSerializedProto(ReadBoundedFile(path, kMostBytes));
    Require(status.ok() && processor_.GetPieceSize() > 0, "'{}' is not a SentencePiece model: {}", path,
            status.ToString());
  }

  std::int64_t vocabulary() const override { return processor_.GetPieceSize(); }
  std::string description() const override { return fmt::format("{}: SentencePiece, {} tokens", path_, vocabulary()); }

  void Encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    const std::string clean = replace_ill_formed_ ? ReplaceIllFormedUtf8(text) : std::string(text);
    std::vector<int> pieces;
    const auto status = processor_.Encode(clean, &pieces);
    Require(status.ok(), "'{}' cannot encode {} bytes: {}", path_, text.size(), status.ToString());
    ids.insert(ids.end(), pieces.begin(), pieces.end());
  }

  std::string Decode(std::span<const std::int32_t> ids) const override {
    for (const std::int32_t id : ids) {
      Require(id >= 0 && id < vocabulary(), "token {} is outside the {} tokens of '{}'", id, vocabulary(), path_);
    }
    std::string text;
    const auto status = processor_.Decode(std::vector<int>(ids.begin(), ids.end()), &text);
    Require(status.ok(), "'{}' cannot decode {} tokens: {}", path_, ids.size(), status.ToString());
    return text;
  }

  bool IsSpecial(std::int32_t id) const override {
    return id >= 0 && id < vocabulary() && (processor_.IsControl(id) || processor_.IsUnknown(id));
  }
  std::optional<std::int32_t> FindToken(std::string_view content) const override {
    const int id = processor_.PieceToId(std::string(content));
    return processor_.IdToPiece(id) == content ? std::optional<std::int32_t>(id) : std::nullopt;
  }
  std::optional<std::int32_t> end_of_text() const override {
    return processor_.eos_id() >= 0 ? std::optional<std::int32_t>(processor_.eos_id()) : std::nullopt;
  }
  std::vector<std::int32_t> prefix() const override {
    return processor_.bos_id() >= 0 ? std::vector<std::int32_t>{processor_.bos_id()} : std::vector<std::int32_t>{};
  }

 private:
  std::string path_;
  bool replace_ill_formed_;
  sentencepiece::SentencePieceProcessor processor_;
};

// A field of a protocol buffer: a number, or bytes.
struct ProtoField {
  std::uint64_t number = 0;
  std::uint64_t value = 0;
  std::string_view bytes;
};

// Reads the fields of a message one after another; what is cut short ends it. The library has checked the whole model.
class ProtoReader {
 public:
  explicit ProtoReader(std::string_view text) : rest_(text) {}

  bool Next(ProtoField& field) {
    if (rest_.empty()) {
      return false;
    }
    const std::uint64_t tag = Varint();
    field = {.number = tag >> 3};
    constexpr std::uint64_t kVarint = 0;
    constexpr std::uint64_t kLong = 1;
    constexpr std::uint64_t kBytes = 2;
    switch (tag & 7U) {
      case kVarint:
        field.value = Varint();
        break;
      case kBytes:
        field.bytes = Take(Varint());
        break;
      default:
        Take((tag & 7U) == kLong ? 8 : 4);
    }
    return true;
  }

 private:
  std::uint64_t Varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; !rest_.empty() && shift < 64; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
      if (byte < 0x80U) {
        break;
      }
    }
    return value;
  }
  std::string_view Take(std::uint64_t count) {
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view rest_;
};

// A field of a message within the model's, or `otherwise`.
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

// The kind of each piece, by id.
std::vector<TokenRole> PieceKinds(std::string_view model) {
  constexpr std::uint64_t kPiece = 1;
  constexpr std::uint64_t kType = 3;
  constexpr std::uint64_t kLast = 6;  // types are 1 to 6, in the order of TokenRole
  std::vector<TokenRole> kinds;
  ProtoField outer;
  for (ProtoReader fields(model); fields.Next(outer);) {
    if (outer.number != kPiece) {
      continue;
    }
    kinds.push_back(TokenRole::kNormal);
    ProtoField inner;
    for (ProtoReader own(outer.bytes); own.Next(inner);) {
      if (inner.number == kType && inner.value >= 1 && inner.value <= kLast) {
        kinds.back() = static_cast<TokenRole>(inner.value - 1);
      }
    }
  }
  return kinds;
}

}  // namespace

TokenTable ReadSentencePieceTable(const std::string& path) {
  const std::string proto = ReadBoundedFile(path, kMostBytes);
  sentencepiece::SentencePieceProcessor processor;
  const auto status = processor.LoadFromSerializedProto(proto);
  Require(status.ok() && processor.GetPieceSize() > 0, "'{}' is not a SentencePiece model: {}", path,
          status.ToString());
  // Field numbers of sentencepiece_model.proto.
  constexpr std::uint64_t kTrainer = 2;
  constexpr std::uint64_t kModelType = 3;
  constexpr std::uint64_t kUnigrams = 1;
  constexpr std::uint64_t kBytePairs = 2;
  constexpr std::uint64_t kNormalizer = 3;
  constexpr std::uint64_t kCharacterMap = 2;
  constexpr std::uint64_t kDummyPrefix = 3;
  constexpr std::uint64_t kExtraSpaces = 4;
  const std::uint64_t type = InnerNumber(proto, kTrainer, kModelType, kUnigrams);
  Require(type == kBytePairs || type == kUnigrams,
          "'{}' is a SentencePiece model of words or characters, not of BPE or "
          "unigrams",
          path);
  TokenTable table{.sentence_pieces = true, .unigrams = type == kUnigrams};
  table.character_map = InnerField(proto, kNormalizer, kCharacterMap, {}).bytes;
  table.normalizes = !table.character_map.empty();
  table.add_prefix_space = InnerNumber(proto, kNormalizer, kDummyPrefix, 1) != 0;
  table.remove_extra_spaces = InnerNumber(proto, kNormalizer, kExtraSpaces, 1) != 0;
  const std::vector<TokenRole> kinds = PieceKinds(proto);
  Require(kinds.size() == static_cast<std::size_t>(processor.GetPieceSize()), "'{}' has {} pieces, its library read {}",
          path, kinds.size(), processor.GetPieceSize());
  for (int id = 0; id < processor.GetPieceSize(); ++id) {
    table.tokens.push_back({.text = processor.IdToPiece(id),
                            .score = processor.GetScore(id),
                            .kind = kinds[static_cast<std::size_t>(id)]});
  }
  const auto known = [](int id) { return id >= 0 ? std::optional<std::int32_t>(id) : std::nullopt; };
  table.beginning = known(processor.bos_id());
  table.end = known(processor.eos_id());
  table.unknown = known(processor.unk_id());
  table.padding = known(processor.pad_id());
  table.add_beginning = table.beginning.has_value();
  return table;
}

std::unique_ptr<Tokenizer> LoadSentencePiece(const std::string& path, const TokenizerOptions& options) {
  return std::make_unique<SentencePieceTokenizer>(path, options);
}

}  // namespace trireme
