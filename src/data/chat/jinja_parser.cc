#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "data/chat/jinja_lexer.h"
#include "data/chat/jinja_tree.h"

namespace trireme::jinja {
namespace {

using Kind = Expression::Kind;

constexpr int kDeepest = 64;

// The expressions of one tag.
class ExpressionParser {
 public:
  ExpressionParser(const Piece& piece, const std::string& origin) : piece_(piece), origin_(origin) {}

  const Token& Peek(std::size_t ahead = 0) const {
    return piece_.tokens[std::min(at_ + ahead, piece_.tokens.size() - 1)];
  }
  bool AtEnd() const { return Peek().kind == Token::Kind::kEnd; }
  bool Is(std::string_view text) const {
    return (Peek().kind == Token::Kind::kOperator || Peek().kind == Token::Kind::kName) && Peek().text == text;
  }
  bool Accept(std::string_view text) {
    const bool there = Is(text);
    at_ += there ? 1 : 0;
    return there;
  }
  void Expect(std::string_view text) {
    if (!Accept(text)) {
      Refuse(fmt::format("'{}' was expected before '{}'", text, AtEnd() ? "the end of the tag" : Peek().text));
    }
  }
  std::string Name() {
    if (Peek().kind != Token::Kind::kName) {
      Refuse(fmt::format("a name was expected, not '{}'", Peek().text));
    }
    return piece_.tokens[at_++].text;
  }
  void End() {
    if (!AtEnd()) {
      Refuse(fmt::format("'{}' is not covered here", Peek().text));
    }
  }
  [[noreturn]] void Refuse(const std::string& message) const {
    Fail("the chat template of '{}', line {}: {}", origin_, piece_.line, message);
  }

  ExpressionPointer Parse() {
    const Depth depth(*this);
    ExpressionPointer value = Or();
    if (!Accept("if")) {
      return value;
    }
    ExpressionPointer condition = Or();
    ExpressionPointer otherwise = Accept("else") ? Parse() : nullptr;
    return Make(Kind::kTernary, "", std::move(value), std::move(condition), std::move(otherwise));
  }

  // Without a ternary: what `for x in …` takes before its `if`.
  ExpressionPointer ParseWithoutTernary() { return Or(); }

 private:
  // Counts how deep expressions are nested.
  class Depth {
   public:
    explicit Depth(ExpressionParser& owner) : owner_(owner) {
      if (++owner_.depth_ > kDeepest) {
        owner_.Refuse(fmt::format("expressions are nested more than {} deep", kDeepest));
      }
    }
    ~Depth() { --owner_.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    ExpressionParser& owner_;
  };

  template <typename... Parts>
  ExpressionPointer Make(Kind kind, std::string text, Parts... parts) const {
    auto made = std::make_unique<Expression>();
    made->kind = kind;
    made->text = std::move(text);
    made->line = piece_.line;
    (made->parts.push_back(std::move(parts)), ...);
    return made;
  }
  ExpressionPointer Literal(Value value) const {
    ExpressionPointer made = Make(Kind::kLiteral, "");
    made->value = std::move(value);
    return made;
  }

  ExpressionPointer Or() {
    ExpressionPointer left = And();
    while (Accept("or")) {
      left = Make(Kind::kOr, "", std::move(left), And());
    }
    return left;
  }
  ExpressionPointer And() {
    ExpressionPointer left = Not();
    while (Accept("and")) {
      left = Make(Kind::kAnd, "", std::move(left), Not());
    }
    return left;
  }
  ExpressionPointer Not() {
    const Depth depth(*this);
    return Accept("not") ? Make(Kind::kNot, "", Not()) : Comparison();
  }

  ExpressionPointer Comparison() {
    ExpressionPointer left = Sum();
    bool compared = false;
    while (true) {
      std::string found;
      for (const char* text : {"==", "!=", "<", ">", "<=", ">=", "in"}) {
        found = found.empty() && Is(text) ? text : found;
      }
      const bool negated = found.empty() && Is("not") && Peek(1).text == "in";
      if (found.empty() && !negated) {
        return left;
      }
      if (compared) {
        Refuse("comparisons in a chain (a < b < c) are not covered");
      }
      compared = true;
      at_ += negated ? 2 : 1;
      left = Make(Kind::kBinary, negated ? "in" : found, std::move(left), Sum());
      left = negated ? Make(Kind::kNot, "", std::move(left)) : std::move(left);
    }
  }

  ExpressionPointer Sum() {
    ExpressionPointer left = Concatenation();
    while (Is("+") || Is("-")) {
      const std::string text = piece_.tokens[at_++].text;
      left = Make(Kind::kBinary, text, std::move(left), Concatenation());
    }
    return left;
  }
  ExpressionPointer Concatenation() {
    ExpressionPointer left = Product();
    while (Accept("~")) {
      left = Make(Kind::kBinary, "~", std::move(left), Product());
    }
    return left;
  }
  ExpressionPointer Product() {
    ExpressionPointer left = Unary();
    while (Is("*") || Is("/") || Is("//") || Is("%")) {
      const std::string text = piece_.tokens[at_++].text;
      left = Make(Kind::kBinary, text, std::move(left), Unary());
    }
    return left;
  }
  ExpressionPointer Unary() {
    const Depth depth(*this);
    if (Accept("-")) {
      return Filters(Make(Kind::kNegative, "", Power()));
    }
    Accept("+");
    return Filters(Power());
  }
  ExpressionPointer Power() {
    ExpressionPointer left = Postfix(Primary());
    return Accept("**") ? Make(Kind::kBinary, "**", std::move(left), Unary()) : std::move(left);
  }

  ExpressionPointer Filters(ExpressionPointer value) {
    while (true) {
      if (Accept("|")) {
        ExpressionPointer filter = Make(Kind::kFilter, Name(), std::move(value));
        if (Accept("(")) {
          Arguments(*filter);
        }
        value = Postfix(std::move(filter));
      } else if (Is("is")) {
        value = Test(std::move(value));
      } else {
        return value;
      }
    }
  }
  ExpressionPointer Test(ExpressionPointer value) {
    Expect("is");
    const bool negated = Accept("not");
    ExpressionPointer test = Make(Kind::kTest, Name(), std::move(value));
    if (Accept("(")) {
      Arguments(*test);
    } else if (Peek().kind == Token::Kind::kString || Peek().kind == Token::Kind::kInteger) {
      test->parts.push_back(Primary());
    }
    return negated ? Make(Kind::kNot, "", std::move(test)) : std::move(test);
  }

  ExpressionPointer Postfix(ExpressionPointer value) {
    while (true) {
      if (Accept(".")) {
        const bool number = Peek().kind == Token::Kind::kInteger;
        value = number ? Make(Kind::kIndex, "", std::move(value), Primary())
                       : Make(Kind::kAttribute, Name(), std::move(value));
      } else if (Accept("[")) {
        value = Subscript(std::move(value));
      } else if (Accept("(")) {
        value = Make(Kind::kCall, "", std::move(value));
        Arguments(*value);
      } else {
        return value;
      }
    }
  }
  ExpressionPointer Subscript(ExpressionPointer value) {
    std::array<ExpressionPointer, 3> limits;
    std::size_t given = 0;
    bool slice = false;
    while (!Accept("]")) {
      if (Accept(":")) {
        slice = true;
        if (++given == limits.size()) {
          Refuse("a slice has three parts at most");
        }
      } else {
        limits[given] = Parse();
      }
    }
    if (slice) {
      return Make(Kind::kSlice, "", std::move(value), std::move(limits[0]), std::move(limits[1]), std::move(limits[2]));
    }
    if (limits[0] == nullptr) {
      Refuse("an index is missing");
    }
    return Make(Kind::kIndex, "", std::move(value), std::move(limits[0]));
  }
  // After the opening bracket.
  void Arguments(Expression& call) {
    while (!Accept(")")) {
      if (Peek().kind == Token::Kind::kName && Peek(1).kind == Token::Kind::kOperator && Peek(1).text == "=") {
        const std::string name = Name();
        Expect("=");
        call.named.emplace_back(name, Parse());
      } else {
        call.parts.push_back(Parse());
      }
      if (!Is(")")) {
        Expect(",");
      }
    }
  }

  ExpressionPointer Primary() {
    const Depth depth(*this);
    const Token token = Peek();
    ++at_;
    switch (token.kind) {
      case Token::Kind::kString: {
        std::string text = token.text;
        while (Peek().kind == Token::Kind::kString) {  // neighbours are one string
          text += piece_.tokens[at_++].text;
        }
        return Literal(text);
      }
      case Token::Kind::kInteger:
        if (token.text.size() > 18) {
          Refuse(fmt::format("{} is too large", token.text));
        }
        return Literal(std::stoll(token.text));
      case Token::Kind::kFloat:
        return Literal(std::stod(token.text));
      case Token::Kind::kName:
        return Word(token.text);
      case Token::Kind::kOperator:
        return Bracket(token.text);
      case Token::Kind::kEnd:
        break;
    }
    Refuse("the tag ends where a value was expected");
  }
  ExpressionPointer Word(const std::string& text) const {
    if (text == "true" || text == "True" || text == "false" || text == "False") {
      return Literal(text == "true" || text == "True");
    }
    return text == "none" || text == "None" ? Literal(nullptr) : Make(Kind::kName, text);
  }
  ExpressionPointer Bracket(const std::string& text) {
    if (text == "(" || text == "[") {
      const std::string closing = text == "(" ? ")" : "]";
      ExpressionPointer list = Make(Kind::kList, "");
      bool comma = false;
      while (!Accept(closing)) {
        list->parts.push_back(Parse());
        if (!Is(closing)) {
          Expect(",");
          comma = true;
        }
      }
      return text == "(" && !comma && list->parts.size() == 1 ? std::move(list->parts[0]) : std::move(list);
    }
    if (text != "{") {
      Refuse(fmt::format("'{}' stands where a value was expected", text));
    }
    ExpressionPointer dict = Make(Kind::kDict, "");
    while (!Accept("}")) {
      dict->parts.push_back(Parse());
      Expect(":");
      dict->parts.push_back(Parse());
      if (!Is("}")) {
        Expect(",");
      }
    }
    return dict;
  }

  const Piece& piece_;
  const std::string& origin_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

class TemplateParser {
 public:
  TemplateParser(std::vector<Piece> pieces, const std::string& origin) : pieces_(std::move(pieces)), origin_(origin) {}

  Block Parse() {
    Block block = Until({});
    if (at_ < pieces_.size()) {
      ExpressionParser(pieces_[at_], origin_).Refuse(fmt::format("'{}' closes nothing", KeywordAt(at_)));
    }
    return block;
  }

 private:
  std::string KeywordAt(std::size_t index) const {
    const Piece& piece = pieces_[index];
    return piece.kind == Piece::Kind::kStatement ? piece.tokens[0].text : "";
  }

  // Statements up to one of these keywords, which stays.
  Block Until(const std::vector<std::string_view>& ends) {
    if (++depth_ > kDeepest) {
      Fail("the chat template of '{}': statements are nested more than {} deep", origin_, kDeepest);
    }
    constexpr std::array kClosing = {"elif", "else", "endif", "endfor", "endset", "endgeneration"};
    Block block;
    while (at_ < pieces_.size()) {
      const std::string keyword = KeywordAt(at_);
      if (std::find(ends.begin(), ends.end(), keyword) != ends.end() ||
          (!keyword.empty() && std::find(kClosing.begin(), kClosing.end(), keyword) != kClosing.end())) {
        break;
      }
      block.push_back(Next());
    }
    --depth_;
    return block;
  }

  Statement Next() {
    const Piece& piece = pieces_[at_++];
    Statement statement;
    statement.line = piece.line;
    if (piece.kind == Piece::Kind::kText) {
      statement.text = piece.text;
      return statement;
    }
    ExpressionParser tag(piece, origin_);
    if (piece.kind == Piece::Kind::kOutput) {
      statement.kind = Statement::Kind::kOutput;
      statement.expression = tag.Parse();
      tag.End();
      return statement;
    }
    const std::string keyword = tag.Name();
    if (keyword == "if") {
      ParseIf(tag, statement);
    } else if (keyword == "for") {
      ParseFor(tag, statement);
    } else if (keyword == "set") {
      ParseSet(tag, statement);
    } else if (keyword == "generation") {
      tag.End();
      statement.kind = Statement::Kind::kGeneration;
      statement.body = Until({});
      Close("endgeneration", piece);
    } else if (keyword == "break" || keyword == "continue") {
      tag.End();
      statement.kind = keyword == "break" ? Statement::Kind::kBreak : Statement::Kind::kContinue;
    } else {
      tag.Refuse(
          fmt::format("the statement '{}' is not covered; if, for, set, break, continue and generation are", keyword));
    }
    return statement;
  }

  void Close(const std::string& keyword, const Piece& opening) {
    if (at_ >= pieces_.size() || KeywordAt(at_) != keyword) {
      ExpressionParser(opening, origin_).Refuse(fmt::format("'{}' is missing", keyword));
    }
    ++at_;
  }

  void ParseIf(ExpressionParser& tag, Statement& statement) {
    const Piece& opening = pieces_[at_ - 1];
    statement.kind = Statement::Kind::kIf;
    ExpressionPointer condition = tag.Parse();
    tag.End();
    statement.branches.push_back({.condition = std::move(condition), .body = Until({})});
    while (at_ < pieces_.size() && KeywordAt(at_) == "elif") {
      ExpressionParser next(pieces_[at_++], origin_);
      next.Name();
      ExpressionPointer other = next.Parse();
      next.End();
      statement.branches.push_back({.condition = std::move(other), .body = Until({})});
    }
    if (at_ < pieces_.size() && KeywordAt(at_) == "else") {
      ++at_;
      statement.branches.push_back({.condition = nullptr, .body = Until({})});
    }
    Close("endif", opening);
  }

  void ParseFor(ExpressionParser& tag, Statement& statement) {
    const Piece& opening = pieces_[at_ - 1];
    statement.kind = Statement::Kind::kFor;
    do {
      statement.names.push_back(tag.Name());
    } while (tag.Accept(","));
    tag.Expect("in");
    statement.expression = tag.ParseWithoutTernary();
    if (tag.Accept("if")) {
      statement.condition = tag.Parse();
    }
    tag.End();
    statement.body = Until({});
    if (at_ < pieces_.size() && KeywordAt(at_) == "else") {
      ++at_;
      statement.otherwise = Until({});
    }
    Close("endfor", opening);
  }

  void ParseSet(ExpressionParser& tag, Statement& statement) {
    const Piece& opening = pieces_[at_ - 1];
    statement.names.push_back(tag.Name());
    if (tag.Accept(".")) {
      statement.attribute = tag.Name();
    }
    if (tag.Accept("=")) {
      statement.kind = Statement::Kind::kSet;
      statement.expression = tag.Parse();
      tag.End();
      return;
    }
    tag.End();
    statement.kind = Statement::Kind::kSetBlock;
    statement.body = Until({});
    Close("endset", opening);
  }

  std::vector<Piece> pieces_;
  const std::string& origin_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Block ParseTemplate(const std::string& source, const std::string& origin) {
  return TemplateParser(CutTemplate(source, origin), origin).Parse();
}

}  // namespace trireme::jinja
