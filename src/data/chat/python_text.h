// Strings and printed values as Python has them: templates count characters, not bytes, and print True and None.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/jinja_tree.h"

namespace trireme::jinja {

inline Value Undefined() { return Value(Value::value_t::discarded); }

bool IsTrue(const Value& value);
// str(value); nothing for undefined.
std::string PythonText(const Value& value);
// json.dumps(value, ensure_ascii=False, indent=indent): ", " and ": " between, or lines where `indent` is 0 or more.
std::string PythonJson(const Value& value, int indent);

// The characters of a string, each a string.
std::vector<std::string> Characters(std::string_view text);
enum class Side { kBoth, kLeft, kRight };
// strip: white space, or the characters of `set`.
std::string Strip(std::string_view text, Side side, const std::optional<std::string>& set);
// split: by white space where there is no separator. `most` splits at most; below 0: all.
std::vector<std::string> Split(std::string_view text, const std::optional<std::string>& separator, std::int64_t most);
std::string Replace(std::string_view text, std::string_view from, std::string_view to);
std::string Upper(std::string_view text);
std::string Lower(std::string_view text);

}  // namespace trireme::jinja
