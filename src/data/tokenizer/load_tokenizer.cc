#include <filesystem>

#include "base/error.h"
#include "data/tokenizer/bpe_tokenizer.h"
#include "data/tokenizer/character_bpe_tokenizer.h"
#include "data/tokenizer/sentencepiece_tokenizer.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_files.h"
#include "data/tokenizer/tokenizer_folder.h"

namespace trireme {
namespace {

class ByteTokenizer final : public Tokenizer {
 public:
  using Tokenizer::Encode;

  std::int64_t vocabulary() const override { return 256; }
  std::string description() const override { return "bytes: 256 tokens, a byte each"; }
  void Encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    for (const char byte : text) {
      ids.push_back(static_cast<std::uint8_t>(byte));  // a reserve for each text would copy all earlier ones
    }
  }
  std::string Decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      Require(id >= 0 && id < 256, "token {} is not a byte", id);
      text += static_cast<char>(id);
    }
    return text;
  }
  bool IsSpecial(std::int32_t) const override { return false; }
  std::optional<std::int32_t> FindToken(std::string_view content) const override {
    return content.size() == 1 ? std::optional<std::int32_t>(static_cast<std::uint8_t>(content[0])) : std::nullopt;
  }
  std::optional<std::int32_t> end_of_text() const override { return std::nullopt; }
};

std::string FindInDirectory(const std::string& path) {
  std::string file = FindTokenizer(path);
  Require(!file.empty(), "the directory '{}' has no tokenizer.json, vocab.json or tokenizer.model", path);
  return file;
}

}  // namespace

std::unique_ptr<Tokenizer> LoadTokenizer(const std::string& path, const TokenizerOptions& options) {
  Require(!path.empty(), "no tokenizer: name a file, a directory, or 'bytes'");
  if (path == "bytes") {
    return std::make_unique<ByteTokenizer>();
  }
  const std::string file = std::filesystem::is_directory(path) ? FindInDirectory(path) : path;
  if (file.ends_with(".model")) {
    return LoadSentencePiece(file, options);
  }
  const bool vocabulary = std::filesystem::path(file).filename() == "vocab.json";
  BpeDescription description = vocabulary ? ReadVocabularyAndMerges(file) : ReadTokenizerJson(file);
  if (description.characters.has_value()) {
    return std::make_unique<CharacterBpeTokenizer>(std::move(description), options);
  }
  return std::make_unique<BpeTokenizer>(std::move(description), options);
}

}  // namespace trireme
