// What libc++ 13, the library of Emscripten 3.1, lacks of C++20. The page's build includes this first in every file.
#pragma once

#include <charconv>
#include <cstdlib>
#include <string>
#include <version>

namespace std {  // NOLINT(cert-dcl58-cpp)

#ifndef __cpp_lib_bit_cast
template <typename To, typename From>
constexpr To bit_cast(const From& from) noexcept {
  return __builtin_bit_cast(To, from);
}
#endif

#ifndef __cpp_lib_to_chars
// strtod takes more than from_chars does: space before the number, a plus sign, hexadecimal digits.
inline from_chars_result from_chars(const char* first, const char* last, double& value) {
  const string text(first, last);
  const size_t digits = text.starts_with('-') ? 1 : 0;
  const bool starts = text.find_first_of("0123456789.", digits) == digits && text.find_first_of("xX") != digits + 1;
  char* end = nullptr;
  const double read = starts ? strtod(text.c_str(), &end) : 0;
  if (!starts || end == text.c_str()) {
    return {first, errc::invalid_argument};
  }
  value = read;
  return {first + (end - text.c_str()), errc()};
}
#endif

}  // namespace std
