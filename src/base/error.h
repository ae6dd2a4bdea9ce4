// The one error type, and the two ways to raise it. Require() is for what a user, a file or another machine can get
// wrong: its message names the value and what would work; it is cleaned for terminals (base/plain_text.h). What only a
// programmer can get wrong is an assert.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace trireme {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] void ThrowError(fmt::string_view format, fmt::format_args arguments);

// Throws Error with the formatted message.
template <typename... Arguments>
[[noreturn]] void Fail(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  ThrowError(format, fmt::make_format_args(arguments...));
}

// Throws Error with the formatted message unless `condition`. The arguments are evaluated either way: keep them cheap.
template <typename... Arguments>
void Require(bool condition, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  if (!condition) [[unlikely]] {
    ThrowError(format, fmt::make_format_args(arguments...));
  }
}

// Throws Error: `what` '`word`' is unknown, the nearest of the known ones, and all of them.
[[noreturn]] void FailUnknown(const char* what, const std::string& word, const std::vector<std::string>& known);

// The candidate nearest to `word` by edit distance, as " (did you mean 'x'?)", or "" when none is near.
template <typename Range>
std::string NearestMatch(const std::string& word, const Range& candidates);

int EditDistance(const std::string& a, const std::string& b);

template <typename Range>
std::string NearestMatch(const std::string& word, const Range& candidates) {
  int best_distance = static_cast<int>(word.size()) / 2 + 2;
  std::string best;
  for (const auto& candidate : candidates) {
    const int distance = EditDistance(word, std::string(candidate));
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best.empty() ? "" : " (did you mean '" + best + "'?)";
}

}  // namespace trireme
