#include "data/tokenizer/bpe_tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "data/tokenizer/utf8.h"

namespace trireme {

// A word cache for the length of one call.
class BpeTokenizer::CacheLease {
 public:
  explicit CacheLease(const BpeTokenizer& owner) : owner_(owner) {
    const std::lock_guard lock(owner_.pool_mutex_);
    if (!owner_.pool_.empty()) {
      cache_ = std::move(owner_.pool_.back());
      owner_.pool_.pop_back();
    }
  }
  ~CacheLease() {
    const std::lock_guard lock(owner_.pool_mutex_);
    owner_.pool_.push_back(std::move(cache_));
  }
  CacheLease(const CacheLease&) = delete;
  CacheLease& operator=(const CacheLease&) = delete;

  WordCache& cache() {
    if (cache_ == nullptr) {
      cache_ = std::make_unique<WordCache>();
    }
    return *cache_;
  }

 private:
  const BpeTokenizer& owner_;
  std::unique_ptr<WordCache> cache_;
};

BpeTokenizer::BpeTokenizer(BpeDescription description, const TokenizerOptions& options)
    : origin_(description.origin),
      model_(description.vocabulary, description.origin),
      normalizer_(description.normal_forms),
      pattern_(description.pattern),
      add_prefix_space_(description.add_prefix_space),
      replace_ill_formed_(options.replace_ill_formed),
      vocabulary_(model_.size()),
      prefix_(std::move(description.prefix)),
      suffix_(std::move(description.suffix)) {
  std::vector<AddedToken> raw;
  std::vector<AddedToken> normalized;
  for (AddedToken token : description.added_tokens) {
    // Hugging Face's rule: a token that the model has too keeps the model's id.
    token.id = model_.Find(token.content).value_or(token.id);
    Require(token.id >= 0 && token.id < BytePairModel::kMostTokens,
            "added token '{}' of '{}' has id {}, which is not in [0, {})", token.content, origin_, token.id,
            BytePairModel::kMostTokens);
    vocabulary_ = std::max<std::int64_t>(vocabulary_, token.id + 1);
    added_[token.id] = token;
    if (token.special && !options.parse_special) {
      continue;
    }
    if (token.normalized) {
      token.content = normalizer_(token.content);
    }
    (token.normalized ? normalized : raw).push_back(std::move(token));
  }
  for (const auto* ids : {&prefix_, &suffix_}) {
    for (const std::int32_t id : *ids) {
      Require(id >= 0 && id < vocabulary_, "the template of '{}' adds token {}, beyond its {} tokens", origin_, id,
              vocabulary_);
    }
  }
  raw_matcher_ = std::make_unique<AddedTokenMatcher>(std::move(raw), classes_);
  normalized_matcher_ = std::make_unique<AddedTokenMatcher>(std::move(normalized), classes_);
  constexpr std::array<const char*, 3> kUsualNames = {"<|endoftext|>", "<|end_of_text|>", "</s>"};
  end_of_text_ = description.end_of_text.empty() ? std::nullopt : FindToken(description.end_of_text);
  for (const char* name : kUsualNames) {
    end_of_text_ = end_of_text_.has_value() ? end_of_text_ : FindToken(name);
  }
}

std::string BpeTokenizer::description() const {
  return fmt::format("{}: byte-level BPE, {} tokens, {} merges, {} added tokens", origin_, vocabulary_, model_.merges(),
                     added_.size());
}

void BpeTokenizer::Encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  std::string clean;
  if (replace_ill_formed_ && !IsWellFormedUtf8(text)) {
    clean = ReplaceIllFormedUtf8(text);
    text = clean;
  }
  CacheLease lease(*this);
  for (const TextSpan& span : raw_matcher_->Split(text)) {
    if (span.id >= 0) {
      ids.push_back(span.id);
    } else if (normalizer_.empty()) {
      EncodeNormalized(span.text, lease.cache(), ids);
    } else {
      EncodeNormalized(normalizer_(span.text), lease.cache(), ids);
    }
  }
}

void BpeTokenizer::EncodeNormalized(std::string_view text, WordCache& cache, std::vector<std::int32_t>& ids) const {
  if (normalized_matcher_->empty() && !add_prefix_space_) {
    EncodePlain(text, cache, ids);
    return;
  }
  for (const TextSpan& span : normalized_matcher_->Split(text)) {
    if (span.id >= 0) {
      ids.push_back(span.id);
    } else if (add_prefix_space_ && !span.text.starts_with(' ')) {
      std::string padded = " ";
      padded += span.text;
      EncodePlain(padded, cache, ids);
    } else {
      EncodePlain(span.text, cache, ids);
    }
  }
}

void BpeTokenizer::EncodePlain(std::string_view text, WordCache& cache, std::vector<std::int32_t>& ids) const {
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    const char* const next = PieceEnd(pattern_, classes_, at, end);
    const std::string_view piece(at, static_cast<std::size_t>(next - at));
    if (piece.size() > WordCache::kLongestWord) {
      model_.Encode(piece, ids);
    } else {
      bool hit = false;
      WordCache::Entry& entry = cache.Find(piece, static_cast<std::size_t>(end - at), hit);
      if (hit) {
        ids.insert(ids.end(), entry.ids.begin(), entry.ids.begin() + entry.count);
      } else {
        const std::size_t before = ids.size();
        model_.Encode(piece, ids);
        cache.Store(entry, piece.size(), std::span(ids).subspan(before));
      }
    }
    at = next;
  }
}

std::string BpeTokenizer::Decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) {
    Require(id >= 0 && id < vocabulary_, "token {} is outside the {} tokens of '{}'", id, vocabulary_, origin_);
    const auto added = added_.find(id);
    if (added != added_.end()) {
      text += added->second.content;
    } else if (id < model_.size()) {
      text += model_.bytes(id);
    }
  }
  return text;
}

bool BpeTokenizer::IsSpecial(std::int32_t id) const {
  const auto added = added_.find(id);
  return added != added_.end() && added->second.special;
}

std::optional<std::int32_t> BpeTokenizer::FindToken(std::string_view content) const {
  for (const auto& [id, token] : added_) {
    if (token.content == content) {
      return id;
    }
  }
  return model_.Find(content);
}

}  // namespace trireme
