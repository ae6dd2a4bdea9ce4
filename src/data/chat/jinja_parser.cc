#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "data/chat/jinja_expressions.h"
#include "data/chat/jinja_lexer.h"
#include "data/chat/jinja_tree.h"

namespace trireme::jinja {
namespace {

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
    if (++depth_ > kDeepestNesting) {
      Fail("the chat template of '{}': statements are nested more than {} deep", origin_, kDeepestNesting);
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
