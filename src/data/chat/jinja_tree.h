// Templates in Jinja, as chat models use it: the tree of a template. docs/data.md lists what is covered.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace trireme::jinja {

// Dictionaries keep their order. A discarded value is Jinja's undefined.
using Value = nlohmann::ordered_json;

struct Expression;
using ExpressionPointer = std::unique_ptr<Expression>;

struct Expression {
  enum class Kind {
    kLiteral,    // value
    kName,       // text
    kList,       // parts
    kDict,       // parts: key, value, key, value …
    kNot,        // parts[0]
    kNegative,   // parts[0]
    kAnd,        // parts[0], parts[1]
    kOr,         // parts[0], parts[1]
    kBinary,     // text: + - * / // % ** ~ == != < > <= >= in; parts[0], parts[1]
    kTernary,    // parts[0] if parts[1] else parts[2], which may be null
    kAttribute,  // parts[0].text
    kIndex,      // parts[0][parts[1]]
    kSlice,      // parts[0][parts[1]:parts[2]:parts[3]], the last three may be null
    kCall,       // parts[0](parts[1] …, named)
    kFilter,     // parts[0] | text(parts[1] …, named)
    kTest,       // parts[0] is text(parts[1] …)
  };
  // The library's constructor of a null value only looks as if it could throw.
  Expression() = default;  // NOLINT(bugprone-exception-escape)
  Expression(const Expression&) = delete;
  Expression& operator=(const Expression&) = delete;

  Kind kind = Kind::kLiteral;
  std::string text;
  Value value;
  std::vector<ExpressionPointer> parts;
  std::vector<std::pair<std::string, ExpressionPointer>> named;
  int line = 0;
  int height = 1;  // of the tree from here down
};

struct Statement;
using Block = std::vector<Statement>;

struct Statement {
  enum class Kind {
    kText,        // text
    kOutput,      // expression
    kIf,          // branches: condition (null: else) and body
    kFor,         // names in expression if condition: body, else: otherwise
    kSet,         // names[0] (.attribute) = expression
    kSetBlock,    // names[0] = what body writes
    kGeneration,  // body, marked as written by the model
    kBreak,
    kContinue,
  };
  struct Branch {
    ExpressionPointer condition;
    Block body;
  };
  Kind kind = Kind::kText;
  std::string text;
  ExpressionPointer expression;
  ExpressionPointer condition;
  std::vector<std::string> names;
  std::string attribute;
  std::vector<Branch> branches;
  Block body;
  Block otherwise;
  int line = 0;
};

// An Error names the line and what is not covered or not well-formed.
Block ParseTemplate(const std::string& source, const std::string& origin);

}  // namespace trireme::jinja
