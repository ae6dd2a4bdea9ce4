#include "data/chat/jinja_lexer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "base/error.h"

namespace trireme::jinja {
namespace {

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f'; }
bool StartsName(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

class Cutter {
 public:
  Cutter(std::string source, const std::string& origin) : source_(std::move(source)), origin_(origin) {}

  std::vector<Piece> Cut() {
    while (at_ < source_.size()) {
      const std::size_t open = FindOpening();
      AddText(open);
      if (open == std::string::npos) {
        break;
      }
      line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                           source_.begin() + static_cast<std::ptrdiff_t>(open), '\n'));
      at_ = open;
      TakeTag();
    }
    return std::move(pieces_);
  }

 private:
  std::size_t FindOpening() const {
    for (std::size_t i = at_; i + 1 < source_.size(); ++i) {
      if (source_[i] == '{' && (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#')) {
        return i;
      }
    }
    return std::string::npos;
  }

  // Text from the last tag to the next, white space taken as both of them say.
  void AddText(std::size_t open) {
    std::string text = source_.substr(at_, open == std::string::npos ? open : open - at_);
    bool starts_line = at_ == 0;
    if (strip_next_) {
      text.erase(0, static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), IsBlank) - text.begin()));
    } else if (trim_next_ && text.starts_with('\n')) {
      text.erase(0, 1);
      starts_line = true;
    }
    if (open != std::string::npos) {
      const char kind = source_[open + 1];
      const char sign = open + 2 < source_.size() ? source_[open + 2] : ' ';
      if (sign == '-') {
        text.erase(
            static_cast<std::size_t>(std::find_if_not(text.rbegin(), text.rend(), IsBlank).base() - text.begin()));
      } else if (kind != '{' && sign != '+') {
        StripLineStart(text, starts_line);
      }
    }
    if (!text.empty()) {
      pieces_.push_back({.kind = Piece::Kind::kText, .text = text, .line = line_});
    }
  }

  // Blanks between the start of the line and a block go.
  static void StripLineStart(std::string& text, bool starts_line) {
    const std::size_t line = text.rfind('\n') + 1;  // 0 where there is none
    if ((line > 0 || starts_line) &&
        std::all_of(text.begin() + static_cast<std::ptrdiff_t>(line), text.end(), IsBlank)) {
      text.erase(line);
    }
  }

  void TakeTag() {
    const char kind = source_[at_ + 1];
    if (kind == '#') {
      const std::size_t close = source_.find("#}", at_ + 2);
      Require(close != std::string::npos, "the chat template of '{}', line {}: a comment has no end", origin_, line_);
      Finish(close, source_[close - 1], true);
      return;
    }
    Piece piece{.kind = kind == '{' ? Piece::Kind::kOutput : Piece::Kind::kStatement, .line = line_};
    const std::string_view closing = kind == '{' ? "}}" : "%}";
    std::size_t at = at_ + 2;
    if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) {
      ++at;
    }
    char sign = ' ';
    int open = 0;  // brackets: }} may close two of them
    while (true) {
      while (at < source_.size() && IsBlank(source_[at])) {
        ++at;
      }
      Require(at < source_.size(), "the chat template of '{}', line {}: a tag has no end", origin_, line_);
      if (open == 0 && source_.compare(at, 2, closing) == 0) {
        break;
      }
      if (open == 0 && (source_[at] == '-' || source_[at] == '+') && source_.compare(at + 1, 2, closing) == 0) {
        sign = source_[at];
        ++at;
        break;
      }
      piece.tokens.push_back(TakeToken(at));
      const Token& token = piece.tokens.back();
      if (token.kind == Token::Kind::kOperator) {
        open += token.text == "(" || token.text == "[" || token.text == "{" ? 1 : 0;
        open -= open > 0 && (token.text == ")" || token.text == "]" || token.text == "}") ? 1 : 0;
      }
    }
    piece.tokens.push_back({});
    const bool statement = piece.kind == Piece::Kind::kStatement;
    pieces_.push_back(std::move(piece));
    Finish(at, sign, statement);
  }

  // `close` is where the closing two characters stand.
  void Finish(std::size_t close, char sign, bool trims) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(close), '\n'));
    strip_next_ = sign == '-';
    trim_next_ = trims && sign != '+';
    at_ = close + 2;
  }

  Token TakeToken(std::size_t& at) const {
    const char first = source_[at];
    const std::size_t start = at;
    if (first == '"' || first == '\'') {
      return {.kind = Token::Kind::kString, .text = TakeString(at)};
    }
    if (StartsName(first)) {
      while (at < source_.size() && (StartsName(source_[at]) || IsDigit(source_[at]))) {
        ++at;
      }
      return {.kind = Token::Kind::kName, .text = source_.substr(start, at - start)};
    }
    if (IsDigit(first)) {
      bool real = false;
      while (at < source_.size() && (IsDigit(source_[at]) || (source_[at] == '.' && !real && at + 1 < source_.size() &&
                                                              IsDigit(source_[at + 1])))) {
        real = real || source_[at] == '.';
        ++at;
      }
      return {.kind = real ? Token::Kind::kFloat : Token::Kind::kInteger, .text = source_.substr(start, at - start)};
    }
    constexpr std::array kOperators = {"**", "//", "==", "!=", "<=", ">="};
    for (const char* two : kOperators) {
      if (source_.compare(at, 2, two) == 0) {
        at += 2;
        return {.kind = Token::Kind::kOperator, .text = two};
      }
    }
    Require(std::string_view("+-*/%~<>=.,:|()[]{}").find(first) != std::string_view::npos,
            "the chat template of '{}', line {}: '{}' is not understood", origin_, line_, first);
    ++at;
    return {.kind = Token::Kind::kOperator, .text = std::string(1, first)};
  }

  std::string TakeString(std::size_t& at) const {
    const char quote = source_[at++];
    std::string value;
    while (at < source_.size() && source_[at] != quote) {
      if (source_[at] != '\\' || at + 1 == source_.size()) {
        value += source_[at++];
        continue;
      }
      const char escaped = source_[at + 1];
      at += 2;
      constexpr std::string_view kLetters = "nrtbfav0\\'\"";
      constexpr std::string_view kValues("\n\r\t\b\f\a\v\0\\'\"", 11);
      const std::size_t known = kLetters.find(escaped);
      if (known != std::string_view::npos) {
        value += kValues[known];
      } else {
        Require(escaped != 'u' && escaped != 'x' && escaped != 'U' && escaped != 'N',
                "the chat template of '{}', line {}: the escape \\{} of a string is not covered", origin_, line_,
                escaped);
        value += '\\';
        value += escaped;
      }
    }
    Require(at < source_.size(), "the chat template of '{}', line {}: a string has no end", origin_, line_);
    ++at;
    return value;
  }

  std::string source_;
  const std::string& origin_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool strip_next_ = false;
  bool trim_next_ = false;
  std::vector<Piece> pieces_;
};

}  // namespace

std::vector<Piece> CutTemplate(const std::string& source, const std::string& origin) {
  std::string text;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text += '\n';
      i += i + 1 < source.size() && source[i + 1] == '\n' ? 1 : 0;
    } else {
      text += source[i];
    }
  }
  if (text.ends_with('\n')) {
    text.pop_back();
  }
  return Cutter(std::move(text), origin).Cut();
}

}  // namespace trireme::jinja
