// Parses the expressions of a tag of a chat template into a tree: data/chat/jinja_parser.cc parses the statements
// around them. An Error names the template and the line.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "data/chat/jinja_lexer.h"
#include "data/chat/jinja_tree.h"

namespace trireme::jinja {

// How deep brackets and signs of expressions, and statements, may be nested.
inline constexpr int kDeepestNesting = 64;
// How high an expression's tree may grow: each part of a chain (a ~ b ~ c, a.b.c, a | f | g) sets what precedes it one
// deeper.
inline constexpr int kHighestTree = 256;

// The expressions of one tag. Piece and origin, which names the template, outlive it.
class ExpressionParser {
 public:
  ExpressionParser(const Piece& piece, const std::string& origin) : piece_(piece), origin_(origin) {}

  const Token& Peek(std::size_t ahead = 0) const;
  bool AtEnd() const { return Peek().kind == Token::Kind::kEnd; }
  bool Is(std::string_view text) const;
  bool Accept(std::string_view text);
  void Expect(std::string_view text);
  std::string Name();
  void End();
  [[noreturn]] void Refuse(const std::string& message) const;

  ExpressionPointer Parse();

  // Without a ternary: what `for x in …` takes before its `if`.
  ExpressionPointer ParseWithoutTernary() { return Or(); }

 private:
  // Counts how deep expressions are nested.
  class Depth {
   public:
    explicit Depth(ExpressionParser& owner);
    ~Depth() { --owner_.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    ExpressionParser& owner_;
  };

  template <typename... Parts>
  ExpressionPointer Make(Expression::Kind kind, std::string text, Parts... parts) const {
    auto made = std::make_unique<Expression>();
    made->kind = kind;
    made->text = std::move(text);
    made->line = piece_.line;
    (AddPart(*made, std::move(parts)), ...);
    return made;
  }
  // A part may be null.
  void AddPart(Expression& whole, ExpressionPointer part) const;
  void AddNamed(Expression& whole, const std::string& name, ExpressionPointer value) const;
  void Raise(Expression& whole, const Expression& part) const;
  ExpressionPointer Literal(Value value) const;

  ExpressionPointer Or();
  ExpressionPointer And();
  ExpressionPointer Not();

  ExpressionPointer Comparison();

  ExpressionPointer Sum();
  ExpressionPointer Concatenation();
  ExpressionPointer Product();
  ExpressionPointer Unary();
  ExpressionPointer Power();

  ExpressionPointer Filters(ExpressionPointer value);
  ExpressionPointer Test(ExpressionPointer value);

  ExpressionPointer Postfix(ExpressionPointer value);
  ExpressionPointer Subscript(ExpressionPointer value);
  // After the opening bracket.
  void Arguments(Expression& call);

  ExpressionPointer Primary();
  ExpressionPointer Word(const std::string& text) const;
  ExpressionPointer Bracket(const std::string& text);

  const Piece& piece_;
  const std::string& origin_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace trireme::jinja
