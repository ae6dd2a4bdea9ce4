// Byte-level byte-pair encoding, whole: added tokens, normaliser, pre-tokenizer, merges. Thread-safe; each call borrows
// a word cache from a pool, so that threads do not meet.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/byte_pair_model.h"
#include "data/tokenizer/pre_tokenizer.h"
#include "data/tokenizer/text_normalizer.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/word_cache.h"

namespace trireme {

// Rules of a BPE of characters (data/tokenizer/character_bpe_tokenizer.h).
struct CharacterRules {
  // Whether a space is put before a text: never; before each stretch between added tokens, always or unless it begins
  // with one; or only before the first stretch.
  enum class Prepend : std::uint8_t { kNever, kAlways, kUnlessThere, kFirst };
  Prepend prepend = Prepend::kNever;
  bool spaces_last = false;   // added tokens are looked for before spaces are replaced
  bool cuts_words = false;    // merges do not cross the beginning of a word
  bool strips_space = false;  // decoding drops the space before a text
  bool fuse_unknown = false;
  bool ignore_merges = false;
};

// What a tokenizer's files say.
struct BpeDescription {
  std::string origin;  // path, for messages
  BytePairVocabulary vocabulary;
  std::vector<AddedToken> added_tokens;
  std::vector<NormalForm> normal_forms;
  SplitPattern pattern = SplitPattern::kGpt2;
  bool add_prefix_space = false;
  std::string end_of_text;           // content of the token; empty if the files do not say
  std::vector<std::int32_t> prefix;  // of the post-processor's template
  std::vector<std::int32_t> suffix;
  std::optional<CharacterRules> characters;  // pieces are characters, not bytes
};

class BpeTokenizer final : public Tokenizer {
 public:
  using Tokenizer::Encode;

  BpeTokenizer(BpeDescription description, const TokenizerOptions& options);

  std::int64_t vocabulary() const override { return vocabulary_; }
  std::string description() const override;
  void Encode(std::string_view text, std::vector<std::int32_t>& ids) const override;
  std::string Decode(std::span<const std::int32_t> ids) const override;
  bool IsSpecial(std::int32_t id) const override;
  std::optional<std::int32_t> FindToken(std::string_view content) const override;
  std::optional<std::int32_t> end_of_text() const override { return end_of_text_; }
  std::vector<std::int32_t> prefix() const override { return prefix_; }
  std::vector<std::int32_t> suffix() const override { return suffix_; }

 private:
  class CacheLease;

  void EncodeNormalized(std::string_view text, WordCache& cache, std::vector<std::int32_t>& ids) const;
  void EncodePlain(std::string_view text, WordCache& cache, std::vector<std::int32_t>& ids) const;

  std::string origin_;
  const UnicodeClasses& classes_ = UnicodeClasses::Get();
  BytePairModel model_;
  TextNormalizer normalizer_;
  SplitPattern pattern_;
  bool add_prefix_space_;
  bool replace_ill_formed_;
  std::int64_t vocabulary_ = 0;
  std::unordered_map<std::int32_t, AddedToken> added_;
  std::unique_ptr<AddedTokenMatcher> raw_matcher_;
  std::unique_ptr<AddedTokenMatcher> normalized_matcher_;
  std::optional<std::int32_t> end_of_text_;
  std::vector<std::int32_t> prefix_;
  std::vector<std::int32_t> suffix_;
  mutable std::mutex pool_mutex_;
  mutable std::vector<std::unique_ptr<WordCache>> pool_;
};

}  // namespace trireme
