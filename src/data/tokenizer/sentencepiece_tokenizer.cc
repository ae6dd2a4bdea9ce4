#include "data/tokenizer/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <exception>

#include "base/error.h"
#include "data/tokenizer/sentencepiece_model.h"
#include "data/tokenizer/utf8.h"

namespace trireme {
namespace {

class SentencePieceTokenizer final : public Tokenizer {
 public:
  using Tokenizer::Encode;

  SentencePieceTokenizer(const std::string& path, const TokenizerOptions& options)
      : path_(path), replace_ill_formed_(options.replace_ill_formed) {
    const std::string model = ReadSentencePieceModel(path);
    try {
      const auto status = processor_.LoadFromSerializedProto(model);
      Require(status.ok() && processor_.GetPieceSize() > 0, "'{}' is not a SentencePiece model: {}", path,
              status.ToString());
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {  // a piece that begins with a zero byte
      Fail("'{}' is not a SentencePiece model: {}", path, error.what());
    }
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

// The kind of each piece, by id.
std::vector<TokenRole> PieceKinds(std::string_view model) {
  constexpr std::uint64_t kType = 3;
  constexpr std::uint64_t kLast = 6;  // types are 1 to 6, in the order of TokenRole
  std::vector<TokenRole> kinds;
  ProtoField outer;
  for (ProtoReader fields(model); fields.Next(outer);) {
    if (outer.number != kPieceField) {
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
  const std::string proto = ReadSentencePieceModel(path);
  sentencepiece::SentencePieceProcessor processor;
  const auto status = processor.LoadFromSerializedProto(proto);
  Require(status.ok() && processor.GetPieceSize() > 0, "'{}' is not a SentencePiece model: {}", path,
          status.ToString());
  // Field numbers of sentencepiece_model.proto.
  constexpr std::uint64_t kModelType = 3;
  constexpr std::uint64_t kUnigrams = 1;
  constexpr std::uint64_t kBytePairs = 2;
  constexpr std::uint64_t kDummyPrefix = 3;
  constexpr std::uint64_t kExtraSpaces = 4;
  const std::uint64_t type = InnerNumber(proto, kTrainerField, kModelType, kUnigrams);
  Require(type == kBytePairs || type == kUnigrams,
          "'{}' is a SentencePiece model of words or characters, not of BPE or "
          "unigrams",
          path);
  TokenTable table{.sentence_pieces = true, .unigrams = type == kUnigrams};
  table.character_map = InnerField(proto, kNormalizerField, kCharacterMapField, {}).bytes;
  table.normalizes = !table.character_map.empty();
  table.add_prefix_space = InnerNumber(proto, kNormalizerField, kDummyPrefix, 1) != 0;
  table.remove_extra_spaces = InnerNumber(proto, kNormalizerField, kExtraSpaces, 1) != 0;
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
