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

}  // namespace

std::unique_ptr<Tokenizer> LoadSentencePiece(const std::string& path, const TokenizerOptions& options) {
  return std::make_unique<SentencePieceTokenizer>(path, options);
}

}  // namespace trireme
