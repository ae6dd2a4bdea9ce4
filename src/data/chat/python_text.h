// Strings and printed values as Python has them: templates count characters, not bytes, and print True and None.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/jinja_tree.h"
#include "data/chat/jinja_work.h"

namespace trireme::jinja {

inline Value Undefined() { return Value(Value::value_t::discarded); }

bool IsTrue(const Value& value);
// str(value); nothing for undefined.
std::string PythonText(const Value& value);
// json.dumps(value, ensure_ascii=False, indent=indent): ", " and ": " between, or lines where there is an `indent`.
std::string PythonJson(const Value& value, std::optional<std::size_t> indent, Work& work);

// The first character of a text that is not empty.
std::string_view FirstCharacter(std::string_view text);
// The characters of a string; they refer to it.
std::vector<std::string_view> Characters(std::string_view text);
std::size_t CountCharacters(std::string_view text);
enum class Side { kBoth, kLeft, kRight };
// strip: white space, or the characters of `set`.
std::string Strip(std::string_view text, Side side, const std::optional<std::string>& set);
// split: by white space where there is no separator. `most` splits at most; below 0: all.
std::vector<std::string> Split(std::string_view text, const std::optional<std::string>& separator, std::int64_t most,
                               Work& work);
std::string Replace(std::string_view text, std::string_view from, std::string_view to, Work& work);
// The place of `part` from `begin` on, npos where there is none. Time is linear in both, whatever they hold.
std::size_t Find(std::string_view text, std::string_view part, std::size_t begin = 0);
std::string Upper(std::string_view text);
std::string Lower(std::string_view text);

}  // namespace trireme::jinja
