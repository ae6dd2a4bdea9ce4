// Text to token ids and back. Encode and Decode are safe from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // One more than the largest id.
  virtual std::int64_t vocabulary() const = 0;
  virtual std::string description() const = 0;
  // Appends the ids of `text`, any bytes.
  virtual void Encode(std::string_view text, std::vector<std::int32_t>& ids) const = 0;
  // The bytes of the tokens: exactly the encoded text where no normaliser changed it. An id outside the vocabulary is
  // an Error, one that no token has gives nothing.
  virtual std::string Decode(std::span<const std::int32_t> ids) const = 0;
  virtual bool IsSpecial(std::int32_t id) const = 0;
  // Id of a token by its text as vocabularies write it, such as "<|endoftext|>".
  virtual std::optional<std::int32_t> FindToken(std::string_view content) const = 0;
  // What ends a document, if the tokenizer's files say so.
  virtual std::optional<std::int32_t> end_of_text() const = 0;
  // What the tokenizer's files put before and after a text that a model is to read; Encode() adds neither.
  virtual std::vector<std::int32_t> prefix() const { return {}; }
  virtual std::vector<std::int32_t> suffix() const { return {}; }

  std::vector<std::int32_t> Encode(std::string_view text) const {
    std::vector<std::int32_t> ids;
    Encode(text, ids);
    return ids;
  }
};

struct TokenizerOptions {
  // Special tokens written out in the text become those tokens, as in Hugging Face's libraries. Off for text of unknown
  // origin, which then cannot forge an end of document.
  bool parse_special = true;
  // Ill-formed UTF-8 becomes U+FFFD before anything else, as a program that decodes its input would have it; otherwise
  // the bytes are kept and decode to themselves.
  bool replace_ill_formed = false;
};

// `path` is "bytes" (256 tokens, a byte each), a tokenizer.json, a vocab.json with merges.txt beside it, a
// SentencePiece .model, or a directory that holds one of these.
std::unique_ptr<Tokenizer> LoadTokenizer(const std::string& path, const TokenizerOptions& options = {});

}  // namespace trireme
