#include "data/tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "data/tokenizer/utf8.h"

namespace trireme {
namespace {

std::uint64_t EdgeKey(std::uint32_t node, char byte) {
  return (static_cast<std::uint64_t>(node) << 8) | static_cast<std::uint8_t>(byte);
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens, const UnicodeClasses& classes)
    : tokens_(std::move(tokens)), classes_(classes), accepts_(1, -1) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    std::uint32_t node = 0;
    for (const char byte : tokens_[i].content) {
      const auto [edge, added] = edges_.emplace(EdgeKey(node, byte), static_cast<std::uint32_t>(accepts_.size()));
      if (added) {
        accepts_.push_back(-1);
      }
      node = edge->second;
    }
    if (node != 0) {
      accepts_[node] = static_cast<std::int32_t>(i);
      starts_[static_cast<std::uint8_t>(tokens_[i].content[0])] = true;
    }
  }
}

const AddedToken* AddedTokenMatcher::MatchAt(std::string_view text, std::size_t at) const {
  const AddedToken* longest = nullptr;
  std::uint32_t node = 0;
  for (; at < text.size(); ++at) {
    const auto edge = edges_.find(EdgeKey(node, text[at]));
    if (edge == edges_.end()) {
      break;
    }
    node = edge->second;
    if (accepts_[node] >= 0) {
      longest = &tokens_[static_cast<std::size_t>(accepts_[node])];
    }
  }
  return longest;
}

bool AddedTokenMatcher::StandsAlone(std::string_view text, std::size_t begin, std::size_t end) const {
  const char* const start = text.data();
  const bool left = begin == 0 || (classes_[DecodeUtf8Before(start, start + begin).code] & kWord) == 0;
  const bool right = end == text.size() || (classes_[DecodeUtf8(start + end, start + text.size()).code] & kWord) == 0;
  return left && right;
}

std::size_t AddedTokenMatcher::SpacesBefore(std::string_view text, std::size_t at, std::size_t least) const {
  while (at > least) {
    const Utf8Character character = DecodeUtf8Before(text.data(), text.data() + at);
    if ((classes_[character.code] & kSpace) == 0) {
      break;
    }
    at -= static_cast<std::size_t>(character.length);
  }
  return at;
}

std::size_t AddedTokenMatcher::SpacesAfter(std::string_view text, std::size_t at) const {
  while (at < text.size()) {
    const Utf8Character character = DecodeUtf8(text.data() + at, text.data() + text.size());
    if ((classes_[character.code] & kSpace) == 0) {
      break;
    }
    at += static_cast<std::size_t>(character.length);
  }
  return at;
}

std::vector<TextSpan> AddedTokenMatcher::Split(std::string_view text) const {
  std::vector<TextSpan> spans;
  std::size_t covered = 0;
  std::size_t spaces_begin = 1;  // the spaces that were last looked through to the right; none yet
  std::size_t spaces_end = 0;
  for (std::size_t at = 0; at < text.size();) {
    const AddedToken* token = starts_[static_cast<std::uint8_t>(text[at])] ? MatchAt(text, at) : nullptr;
    if (token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    std::size_t end = at + token->content.size();
    at = end;  // matches never overlap, whether they are used or not
    if (token->single_word && !StandsAlone(text, begin, end)) {
      continue;
    }
    if (token->strip_left) {
      begin = SpacesBefore(text, begin, covered);
    }
    begin = std::max(begin, covered);
    if (token->strip_right) {
      if (end < spaces_begin || end > spaces_end) {
        spaces_begin = end;
        spaces_end = SpacesAfter(text, end);
      }
      end = spaces_end;
    }
    end = std::max(end, begin);
    if (covered < begin) {
      spans.push_back({-1, text.substr(covered, begin - covered)});
    }
    spans.push_back({token->id, text.substr(begin, end - begin)});
    covered = end;
  }
  if (covered < text.size()) {
    spans.push_back({-1, text.substr(covered)});
  }
  return spans;
}

}  // namespace trireme
