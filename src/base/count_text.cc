#include "base/count_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace trireme {

std::optional<double> NumberWithUnit(const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || !std::isfinite(number) || end - stop != 1) {
    return std::nullopt;
  }
  switch (*stop) {
    case 'k':
    case 'K':
      return number * 1e3;
    case 'm':
    case 'M':
      return number * 1e6;
    case 'b':
    case 'B':
      return number * 1e9;
    case 't':
    case 'T':
      return number * 1e12;
    default:
      return std::nullopt;
  }
}

std::string WithoutUnit(const std::string& text) {
  const std::optional<double> number = NumberWithUnit(text);
  if (!number) {
    return text;
  }
  // 1.1k is 1100, not 1100.0000000000002.
  const double whole = std::round(*number);
  const bool is_whole = std::abs(*number - whole) <= 1e-9 * std::abs(whole) && std::abs(whole) < 9e15;
  return is_whole ? fmt::format("{:.0f}", whole) : fmt::format("{}", *number);
}

std::string GroupedDigits(const std::string& digits) {
  const std::size_t point = std::min(digits.find_first_of(".e"), digits.size());
  std::string text = digits;
  const std::size_t first = text.starts_with('-') ? 1 : 0;
  for (std::size_t at = point; at > first + 3; at -= 3) {
    text.insert(at - 3, ",");
  }
  return text;
}

}  // namespace trireme
