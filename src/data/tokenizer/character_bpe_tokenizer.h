// Byte-pair encoding of characters with bytes for those that the vocabulary lacks, as a tokenizer.json has it that was
// made of a SentencePiece model (Llama 2, Mistral 7B, Gemma, Phi-3). Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "data/tokenizer/bpe_tokenizer.h"

namespace trireme {

class CharacterBpeTokenizer final : public Tokenizer {
 public:
  using Tokenizer::Encode;

  // `description.characters` is set.
  CharacterBpeTokenizer(BpeDescription description, const TokenizerOptions& options);

  std::int64_t vocabulary() const override { return static_cast<std::int64_t>(texts_.size()); }
  std::string description() const override;
  void Encode(std::string_view text, std::vector<std::int32_t>& ids) const override;
  std::string Decode(std::span<const std::int32_t> ids) const override;
  bool IsSpecial(std::int32_t id) const override;
  std::optional<std::int32_t> FindToken(std::string_view content) const override;
  std::optional<std::int32_t> end_of_text() const override { return end_of_text_; }
  std::vector<std::int32_t> prefix() const override { return prefix_; }
  std::vector<std::int32_t> suffix() const override { return suffix_; }

 private:
  std::string Normalize(std::string_view text) const;
  // Spaces become U+2581, and one may be put before; `opens` for the beginning of the whole text.
  std::string MarkSpaces(std::string_view text, bool opens) const;
  void EncodePiece(std::string_view piece, std::vector<std::int32_t>& ids) const;

  std::string origin_;
  CharacterRules rules_;
  BytePairModel model_;
  TextNormalizer normalizer_;
  bool replace_ill_formed_;
  std::vector<std::string> texts_;    // by id, as vocabularies write them
  std::vector<std::int32_t> bytes_;   // id of each byte's token; -1: none
  std::vector<std::int16_t> values_;  // by id: the byte that it stands for; -1: none
  std::optional<std::int32_t> unknown_;
  std::unordered_map<std::int32_t, AddedToken> added_;
  std::unique_ptr<AddedTokenMatcher> raw_matcher_;
  std::unique_ptr<AddedTokenMatcher> normalized_matcher_;
  std::optional<std::int32_t> end_of_text_;
  std::vector<std::int32_t> prefix_;
  std::vector<std::int32_t> suffix_;
};

}  // namespace trireme
