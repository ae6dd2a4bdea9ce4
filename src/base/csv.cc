#include "base/csv.h"

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::size_t kLongestField = 1 << 20;

}  // namespace

std::vector<std::vector<std::string>> ParseCsv(const std::string& text, const std::string& origin) {
  std::vector<std::vector<std::string>> records;
  std::vector<std::string> record;
  std::string field;
  bool quoted = false;
  bool was_quoted = false;
  int line = 1;
  int quote_line = 1;
  const auto end_record = [&] {
    record.push_back(std::move(field));
    field.clear();
    was_quoted = false;
    if (record.size() > 1 || !record.front().empty()) {
      records.push_back(std::move(record));
    }
    record.clear();
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    line += c == '\n' ? 1 : 0;
    Require(c != '\0', "{}, line {}: a zero byte: this is no text file", origin, line);
    Require(field.size() < kLongestField, "{}, line {}: a field of more than {} characters; a quote may be missing",
            origin, quoted ? quote_line : line, kLongestField);
    if (quoted) {
      if (c != '"') {
        field += c;
      } else if (at + 1 < text.size() && text[at + 1] == '"') {
        field += '"';
        ++at;
      } else {
        quoted = false;
      }
    } else if (c == '"' && field.empty() && !was_quoted) {
      quoted = was_quoted = true;
      quote_line = line;
    } else if (c == ',') {
      record.push_back(std::move(field));
      field.clear();
      was_quoted = false;
    } else if (c == '\n') {
      end_record();
    } else if (c != '\r') {
      field += c;
    }
  }
  Require(!quoted, "{}, line {}: a quoted field never ends", origin, quote_line);
  if (!field.empty() || !record.empty()) {
    end_record();
  }
  return records;
}

}  // namespace trireme
