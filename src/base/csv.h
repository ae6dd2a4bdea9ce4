// Tables as CSV.
#pragma once

#include <string>
#include <vector>

namespace trireme {

// Splits CSV text (RFC 4180: quotes, doubled quotes, line breaks within them, either line ending) into records of
// fields. Empty lines are skipped. An Error names `origin` and the line.
std::vector<std::vector<std::string>> ParseCsv(const std::string& text, const std::string& origin);

}  // namespace trireme
