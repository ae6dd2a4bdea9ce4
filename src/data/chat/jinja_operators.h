// Operators of two values, as Python has them. What cannot be computed is an Error that names its place.
#pragma once

#include <string>

#include "data/chat/jinja_tree.h"
#include "data/chat/jinja_work.h"

namespace trireme::jinja {

// left TEXT right, for the operators that Expression::Kind::kBinary lists. The caller counts the value.
Value Binary(const std::string& text, const Value& left, const Value& right, Work& work);
// Arithmetic on numbers and truth values: + - * / // % **.
Value Arithmetic(const std::string& text, const Value& left, const Value& right, const Work& work);

}  // namespace trireme::jinja
