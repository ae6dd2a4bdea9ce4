// Cuts a template into text and tags, and tags into tokens. White space around tags goes as transformers sets Jinja up:
// trim_blocks and lstrip_blocks, no trailing newline.
#pragma once

#include <string>
#include <vector>

namespace trireme::jinja {

struct Token {
  enum class Kind { kName, kString, kInteger, kFloat, kOperator, kEnd };
  Kind kind = Kind::kEnd;
  std::string text;  // of a string: its value
};

// A stretch of the template: text, or the tokens of {{ … }} or {% … %}. Comments are left out.
struct Piece {
  enum class Kind { kText, kOutput, kStatement };
  Kind kind = Kind::kText;
  std::string text;
  std::vector<Token> tokens;  // end with kEnd
  int line = 1;
};

std::vector<Piece> CutTemplate(const std::string& source, const std::string& origin);

}  // namespace trireme::jinja
