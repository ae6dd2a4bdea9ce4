#include "base/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/plain_text.h"

namespace trireme {

void ThrowError(fmt::string_view format, fmt::format_args arguments) {
  throw Error(PlainText(fmt::vformat(format, arguments)));
}

void FailUnknown(const char* what, const std::string& word, const std::vector<std::string>& known) {
  Fail("{} '{}' is unknown{}; known: {}", what, word, NearestMatch(word, known), fmt::join(known, ", "));
}

int EditDistance(const std::string& a, const std::string& b) {
  // Words that people mistype are short; a file's may be as long as the file.
  constexpr std::size_t kLongest = 256;
  if (std::max(a.size(), b.size()) > kLongest) {
    return static_cast<int>(std::max(a.size(), b.size()));
  }
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i) + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const int substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace trireme
