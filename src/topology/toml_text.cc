#include "topology/toml_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace trireme {
namespace {

// Looks through a text for what would make a deep tree before toml++ makes it. Reads strings and comments as toml++
// does; of malformed text it may see more or less than toml++, which stops there.
class DepthCheck {
 public:
  explicit DepthCheck(std::string_view text) : text_(text) {}

  void Run() {
    while (at_ < text_.size()) {
      const char letter = text_[at_];
      if (letter == '"' || letter == '\'') {
        SkipString(letter);
        continue;
      }
      ++at_;
      if (letter == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (letter == '.') {
        Check(++dots_ < kMostKeyParts, "a key has more than {} parts", kMostKeyParts);
      } else if (letter == '[' || letter == '{') {
        dots_ = 0;
        Check(++depth_ <= kDeepestToml, "brackets are nested more than {} deep", kDeepestToml);
      } else if (letter == ']' || letter == '}') {
        dots_ = 0;
        --depth_;
      } else if (letter == '=' || letter == ',' || letter == '\n') {
        dots_ = 0;
        line_ += letter == '\n' ? 1 : 0;
      }
    }
  }

 private:
  void Check(bool holds, const char* message, int limit) const {
    if (!holds) {
      throw TomlFault(fmt::format(fmt::runtime(message), limit), line_);
    }
  }

  // Past a string that begins here: of one line, or of several between three quotes each.
  void SkipString(char quote) {
    const std::string three(3, quote);
    const bool several = text_.substr(at_, 3) == three;
    at_ += several ? 3 : 1;
    while (at_ < text_.size()) {
      if (text_[at_] == '\\' && quote == '"') {
        line_ += at_ + 1 < text_.size() && text_[at_ + 1] == '\n' ? 1 : 0;
        at_ = std::min(at_ + 2, text_.size());
        continue;
      }
      if (several && text_.substr(at_, 3) == three) {
        at_ += 3;
        for (int more = 0; more < 2 && at_ < text_.size() && text_[at_] == quote; ++more) {
          ++at_;  // the string ends with quotes of its own
        }
        return;
      }
      if (!several && (text_[at_] == quote || text_[at_] == '\n')) {
        at_ += text_[at_] == quote ? 1 : 0;
        return;
      }
      line_ += text_[at_++] == '\n' ? 1 : 0;
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  int dots_ = 0;  // in what may be one key
  int depth_ = 0;
};

}  // namespace

toml::table ParseToml(const std::string& text) {
  DepthCheck(text).Run();
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw TomlFault(std::string(error.description()), static_cast<int>(error.source().begin.line));
  }
}

}  // namespace trireme
