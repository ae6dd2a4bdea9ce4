#include "data/chat/jinja_expressions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"

namespace trireme::jinja {
namespace {

using Kind = Expression::Kind;

}  // namespace

ExpressionParser::Depth::Depth(ExpressionParser& owner) : owner_(owner) {
  if (++owner_.depth_ > kDeepestNesting) {
    owner_.Refuse(fmt::format("expressions are nested more than {} deep", kDeepestNesting));
  }
}

const Token& ExpressionParser::Peek(std::size_t ahead) const {
  return piece_.tokens[std::min(at_ + ahead, piece_.tokens.size() - 1)];
}

bool ExpressionParser::Is(std::string_view text) const {
  return (Peek().kind == Token::Kind::kOperator || Peek().kind == Token::Kind::kName) && Peek().text == text;
}

bool ExpressionParser::Accept(std::string_view text) {
  const bool there = Is(text);
  at_ += there ? 1 : 0;
  return there;
}

void ExpressionParser::Expect(std::string_view text) {
  if (!Accept(text)) {
    Refuse(fmt::format("'{}' was expected before '{}'", text, AtEnd() ? "the end of the tag" : Peek().text));
  }
}

std::string ExpressionParser::Name() {
  if (Peek().kind != Token::Kind::kName) {
    Refuse(fmt::format("a name was expected, not '{}'", Peek().text));
  }
  return piece_.tokens[at_++].text;
}

void ExpressionParser::End() {
  if (!AtEnd()) {
    Refuse(fmt::format("'{}' is not covered here", Peek().text));
  }
}

void ExpressionParser::Refuse(const std::string& message) const {
  Fail("the chat template of '{}', line {}: {}", origin_, piece_.line, message);
}

void ExpressionParser::Raise(Expression& whole, const Expression& part) const {
  whole.height = std::max(whole.height, part.height + 1);
  if (whole.height > kHighestTree) {
    Refuse(fmt::format("an expression has more than {} parts in a chain", kHighestTree));
  }
}

void ExpressionParser::AddPart(Expression& whole, ExpressionPointer part) const {
  if (part != nullptr) {
    Raise(whole, *part);
  }
  whole.parts.push_back(std::move(part));
}

void ExpressionParser::AddNamed(Expression& whole, const std::string& name, ExpressionPointer value) const {
  Raise(whole, *value);
  whole.named.emplace_back(name, std::move(value));
}

ExpressionPointer ExpressionParser::Parse() {
  const Depth depth(*this);
  ExpressionPointer value = Or();
  if (!Accept("if")) {
    return value;
  }
  ExpressionPointer condition = Or();
  ExpressionPointer otherwise = Accept("else") ? Parse() : nullptr;
  return Make(Kind::kTernary, "", std::move(value), std::move(condition), std::move(otherwise));
}

ExpressionPointer ExpressionParser::Literal(Value value) const {
  ExpressionPointer made = Make(Kind::kLiteral, "");
  made->value = std::move(value);
  return made;
}

ExpressionPointer ExpressionParser::Or() {
  ExpressionPointer left = And();
  while (Accept("or")) {
    left = Make(Kind::kOr, "", std::move(left), And());
  }
  return left;
}

ExpressionPointer ExpressionParser::And() {
  ExpressionPointer left = Not();
  while (Accept("and")) {
    left = Make(Kind::kAnd, "", std::move(left), Not());
  }
  return left;
}

ExpressionPointer ExpressionParser::Not() {
  const Depth depth(*this);
  return Accept("not") ? Make(Kind::kNot, "", Not()) : Comparison();
}

ExpressionPointer ExpressionParser::Comparison() {
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

ExpressionPointer ExpressionParser::Sum() {
  ExpressionPointer left = Concatenation();
  while (Is("+") || Is("-")) {
    const std::string text = piece_.tokens[at_++].text;
    left = Make(Kind::kBinary, text, std::move(left), Concatenation());
  }
  return left;
}

ExpressionPointer ExpressionParser::Concatenation() {
  ExpressionPointer left = Product();
  while (Accept("~")) {
    left = Make(Kind::kBinary, "~", std::move(left), Product());
  }
  return left;
}

ExpressionPointer ExpressionParser::Product() {
  ExpressionPointer left = Unary();
  while (Is("*") || Is("/") || Is("//") || Is("%")) {
    const std::string text = piece_.tokens[at_++].text;
    left = Make(Kind::kBinary, text, std::move(left), Unary());
  }
  return left;
}

ExpressionPointer ExpressionParser::Unary() {
  const Depth depth(*this);
  if (Accept("-")) {
    return Filters(Make(Kind::kNegative, "", Power()));
  }
  Accept("+");
  return Filters(Power());
}

ExpressionPointer ExpressionParser::Power() {
  ExpressionPointer left = Postfix(Primary());
  return Accept("**") ? Make(Kind::kBinary, "**", std::move(left), Unary()) : std::move(left);
}

ExpressionPointer ExpressionParser::Filters(ExpressionPointer value) {
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

ExpressionPointer ExpressionParser::Test(ExpressionPointer value) {
  Expect("is");
  const bool negated = Accept("not");
  ExpressionPointer test = Make(Kind::kTest, Name(), std::move(value));
  if (Accept("(")) {
    Arguments(*test);
  } else if (Peek().kind == Token::Kind::kString || Peek().kind == Token::Kind::kInteger) {
    AddPart(*test, Primary());
  }
  return negated ? Make(Kind::kNot, "", std::move(test)) : std::move(test);
}

ExpressionPointer ExpressionParser::Postfix(ExpressionPointer value) {
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

ExpressionPointer ExpressionParser::Subscript(ExpressionPointer value) {
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

void ExpressionParser::Arguments(Expression& call) {
  while (!Accept(")")) {
    if (Peek().kind == Token::Kind::kName && Peek(1).kind == Token::Kind::kOperator && Peek(1).text == "=") {
      const std::string name = Name();
      Expect("=");
      AddNamed(call, name, Parse());
    } else {
      AddPart(call, Parse());
    }
    if (!Is(")")) {
      Expect(",");
    }
  }
}

ExpressionPointer ExpressionParser::Primary() {
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
      if (token.text.size() > 300) {
        Refuse("a number has more than 300 digits");
      }
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

ExpressionPointer ExpressionParser::Word(const std::string& text) const {
  if (text == "true" || text == "True" || text == "false" || text == "False") {
    return Literal(text == "true" || text == "True");
  }
  return text == "none" || text == "None" ? Literal(nullptr) : Make(Kind::kName, text);
}

ExpressionPointer ExpressionParser::Bracket(const std::string& text) {
  if (text == "(" || text == "[") {
    const std::string closing = text == "(" ? ")" : "]";
    ExpressionPointer list = Make(Kind::kList, "");
    bool comma = false;
    while (!Accept(closing)) {
      AddPart(*list, Parse());
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
    AddPart(*dict, Parse());
    Expect(":");
    AddPart(*dict, Parse());
    if (!Is("}")) {
      Expect(",");
    }
  }
  return dict;
}

}  // namespace trireme::jinja
