// Reader of Megatron's indexed datasets: FILE.bin holds the tokens, FILE.idx the lengths of the sequences and which
// sequences make up a document. Opening checks every entry of the index against the format and the size of the .bin
// (streamed, in bounded memory); nothing of the index is kept, look-ups read it. All methods are thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/dataset/token_kind.h"
#include "data/dataset/token_store.h"
#include "data/files/input_file.h"

namespace trireme {

// What FILE.idx starts with.
inline constexpr std::array<char, 9> kIndexMagic = {'M', 'M', 'I', 'D', 'I', 'D', 'X', '\0', '\0'};

class IndexedDataset final : public TokenStore {
 public:
  // `path` is FILE.bin, FILE.idx or the FILE of both. A malformed pair is one Error that names the file, the entry and
  // the values.
  explicit IndexedDataset(const std::string& path);

  const std::string& path() const override { return bin_.path(); }
  std::int64_t tokens() const override { return tokens_; }
  std::int64_t documents() const override { return boundaries_ - 1; }
  std::int64_t token_limit() const override { return TokenLimit(kind_); }
  void Read(std::int64_t first, std::span<std::int32_t> out) const override;
  std::int64_t DocumentStart(std::int64_t position) const override;
  std::vector<std::int64_t> DocumentStartsBetween(std::int64_t first, std::int64_t last) const override;
  // A conversation has two sequences or more.
  bool has_answers() const override { return documents() > 0 && sequences_ >= 2 * documents(); }
  // Every second sequence of a document is an answer.
  void AnswerMask(std::int64_t first, std::span<std::uint8_t> out) const override;

  TokenKind kind() const { return kind_; }
  std::int64_t sequences() const { return sequences_; }
  bool has_modes() const { return has_modes_; }
  // Tokens of sequence `index`, which is in [0, sequences()).
  std::int32_t SequenceLength(std::int64_t index) const;
  // First token of sequence `index`; tokens() for sequences().
  std::int64_t SequenceStart(std::int64_t index) const;
  // First sequence of document `index`; sequences() for documents().
  std::int64_t DocumentSequence(std::int64_t index) const;
  // The document that holds token `position`.
  std::int64_t FindDocument(std::int64_t position) const;

 private:
  void ReadHeader();
  void CheckSequences() const;
  void CheckDocuments() const;
  std::int64_t offsets_at() const;
  std::int64_t boundaries_at() const;

  InputFile idx_;
  InputFile bin_;
  TokenKind kind_ = TokenKind::kUInt16;
  std::int64_t token_size_ = 2;
  std::int64_t sequences_ = 0;
  std::int64_t boundaries_ = 0;  // documents + 1
  std::int64_t tokens_ = 0;
  bool has_modes_ = false;
};

// FILE of FILE.bin, FILE.idx or FILE itself.
std::string DatasetPrefix(const std::string& path);

std::unique_ptr<TokenStore> OpenIndexedDataset(const std::string& path);

}  // namespace trireme
