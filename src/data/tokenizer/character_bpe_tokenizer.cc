#include "data/tokenizer/character_bpe_tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "data/tokenizer/utf8.h"

namespace trireme {
namespace {

constexpr std::string_view kMarked = "\u2581";

// Bytes of the well-formed character at the beginning; 0 where there is none.
std::size_t CharacterLength(std::string_view text) {
  const auto first = static_cast<std::uint8_t>(text[0]);
  const std::size_t length = first < 0x80 ? 1 : first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  return length <= text.size() && length > 0 && IsWellFormedUtf8(text.substr(0, length)) ? length : 0;
}

}  // namespace

CharacterBpeTokenizer::CharacterBpeTokenizer(BpeDescription description, const TokenizerOptions& options)
    : origin_(description.origin),
      rules_(*description.characters),
      model_(description.vocabulary, description.origin),
      normalizer_(description.normal_forms),
      replace_ill_formed_(options.replace_ill_formed),
      bytes_(256, -1),
      prefix_(std::move(description.prefix)),
      suffix_(std::move(description.suffix)) {
  texts_.resize(static_cast<std::size_t>(model_.size()));
  for (auto& [text, id] : description.vocabulary.tokens) {
    texts_[static_cast<std::size_t>(id)] = text;
  }
  if (!description.vocabulary.unknown_token.empty()) {
    unknown_ = model_.Find(description.vocabulary.unknown_token);
  }
  std::vector<AddedToken> raw;
  std::vector<AddedToken> normalized;
  for (AddedToken token : description.added_tokens) {
    token.id = model_.Find(token.content).value_or(token.id);
    Require(token.id >= 0 && token.id < BytePairModel::kMostTokens,
            "added token '{}' of '{}' has id {}, which is not in [0, {})", token.content, origin_, token.id,
            BytePairModel::kMostTokens);
    if (static_cast<std::size_t>(token.id) >= texts_.size()) {
      texts_.resize(static_cast<std::size_t>(token.id) + 1);
    }
    texts_[static_cast<std::size_t>(token.id)] = token.content;
    added_[token.id] = token;
    if (!token.special || options.parse_special) {
      // Hugging Face looks for what the normaliser makes of the token.
      if (token.normalized) {
        token.content = rules_.spaces_last ? Normalize(token.content) : MarkSpaces(Normalize(token.content), true);
      }
      (token.normalized ? normalized : raw).push_back(std::move(token));
    }
  }
  values_.assign(texts_.size(), -1);
  for (int byte = 0; byte < 256; ++byte) {
    if (const auto id = model_.Find(fmt::format("<0x{:02X}>", byte))) {
      bytes_[static_cast<std::size_t>(byte)] = *id;
      values_[static_cast<std::size_t>(*id)] = static_cast<std::int16_t>(byte);
    }
  }
  for (const auto* ids : {&prefix_, &suffix_}) {
    for (const std::int32_t id : *ids) {
      Require(id >= 0 && id < vocabulary(), "the template of '{}' adds token {}, beyond its {} tokens", origin_, id,
              vocabulary());
    }
  }
  raw_matcher_ = std::make_unique<AddedTokenMatcher>(std::move(raw), UnicodeClasses::Get());
  normalized_matcher_ = std::make_unique<AddedTokenMatcher>(std::move(normalized), UnicodeClasses::Get());
  end_of_text_ = description.end_of_text.empty() ? std::nullopt : FindToken(description.end_of_text);
  for (const char* name : {"</s>", "<eos>", "<|endoftext|>"}) {
    end_of_text_ = end_of_text_.has_value() ? end_of_text_ : FindToken(name);
  }
}

std::string CharacterBpeTokenizer::description() const {
  return fmt::format("{}: BPE of characters and bytes, {} tokens, {} merges, {} added tokens", origin_, vocabulary(),
                     model_.merges(), added_.size());
}

std::string CharacterBpeTokenizer::Normalize(std::string_view text) const {
  return normalizer_.empty() ? std::string(text) : normalizer_(text);
}

std::string CharacterBpeTokenizer::MarkSpaces(std::string_view text, bool opens) const {
  std::string out = ReplaceAll(text, " ", kMarked);
  const bool wanted = rules_.prepend == CharacterRules::Prepend::kAlways ||
                      (rules_.prepend == CharacterRules::Prepend::kUnlessThere && !out.starts_with(kMarked)) ||
                      (rules_.prepend == CharacterRules::Prepend::kFirst && opens && !out.starts_with(kMarked));
  return wanted && !out.empty() ? std::string(kMarked) + out : out;
}

void CharacterBpeTokenizer::Encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  std::string clean;
  if (replace_ill_formed_ && !IsWellFormedUtf8(text)) {
    clean = ReplaceIllFormedUtf8(text);
    text = clean;
  }
  for (const TextSpan& span : raw_matcher_->Split(text)) {
    if (span.id >= 0) {
      ids.push_back(span.id);
      continue;
    }
    const bool opens = span.text.data() == text.data();
    const std::string normalized = rules_.spaces_last ? Normalize(span.text) : MarkSpaces(Normalize(span.text), opens);
    for (const TextSpan& inner : normalized_matcher_->Split(normalized)) {
      if (inner.id >= 0) {
        ids.push_back(inner.id);
        continue;
      }
      const bool inner_opens = opens && inner.text.data() == normalized.data();
      const std::string marked = rules_.spaces_last ? MarkSpaces(inner.text, inner_opens) : std::string(inner.text);
      std::string_view rest = marked;
      while (!rest.empty()) {
        // Where words are cut, each begins with its space.
        const std::size_t next = rules_.cuts_words ? rest.find(kMarked, 1) : std::string_view::npos;
        EncodePiece(rest.substr(0, next), ids);
        rest.remove_prefix(std::min(next, rest.size()));
      }
    }
  }
}

void CharacterBpeTokenizer::EncodePiece(std::string_view piece, std::vector<std::int32_t>& ids) const {
  if (rules_.ignore_merges) {
    if (const auto whole = model_.Find(piece)) {
      ids.push_back(*whole);
      return;
    }
  }
  const std::size_t first = ids.size();
  bool unknown_before = false;
  while (!piece.empty()) {
    const std::size_t length = CharacterLength(piece);
    const std::string_view character = piece.substr(0, std::max<std::size_t>(length, 1));
    piece.remove_prefix(character.size());
    const std::int32_t known = length > 0 ? model_.Find(character).value_or(-1) : -1;
    const bool in_bytes = std::all_of(character.begin(), character.end(),
                                      [&](char byte) { return bytes_[static_cast<std::uint8_t>(byte)] >= 0; });
    if (known >= 0) {
      ids.push_back(known);
    } else if (in_bytes) {
      for (const char byte : character) {
        ids.push_back(bytes_[static_cast<std::uint8_t>(byte)]);
      }
    } else if (unknown_.has_value() && !(rules_.fuse_unknown && unknown_before)) {
      ids.push_back(*unknown_);
    }
    unknown_before = known < 0 && !in_bytes;
  }
  ids.resize(first + model_.Merge(ids.data() + first, ids.size() - first));
}

std::string CharacterBpeTokenizer::Decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) {
    Require(id >= 0 && id < vocabulary(), "token {} is outside the {} tokens of '{}'", id, vocabulary(), origin_);
    const auto index = static_cast<std::size_t>(id);
    if (values_[index] >= 0) {
      text += static_cast<char>(values_[index]);
    } else {
      text += ReplaceAll(texts_[index], kMarked, " ");
    }
  }
  return rules_.strips_space && text.starts_with(' ') ? text.substr(1) : text;
}

bool CharacterBpeTokenizer::IsSpecial(std::int32_t id) const {
  const auto found = added_.find(id);
  return found != added_.end() && found->second.special;
}

std::optional<std::int32_t> CharacterBpeTokenizer::FindToken(std::string_view content) const {
  const auto found =
      std::find_if(added_.begin(), added_.end(), [&](const auto& token) { return token.second.content == content; });
  return found != added_.end() ? std::optional(found->first) : model_.Find(content);
}

}  // namespace trireme
