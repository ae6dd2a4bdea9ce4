#include "data/chat/jinja_operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/chat/jinja_builtins.h"
#include "data/chat/python_text.h"

namespace trireme::jinja {
namespace {

std::string Repeated(const std::string& text, std::int64_t times, Work& work) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
  work.Take(text.size(), count);
  std::string out;
  for (std::size_t i = 0; i < count && !text.empty(); ++i) {
    out += text;
  }
  return out;
}

}  // namespace

Value Binary(const std::string& text, const Value& left, const Value& right, Work& work) {
  if (text == "~") {
    work.Take(left);
    work.Take(right);
    return PythonText(left) + PythonText(right);
  }
  if (text == "==" || text == "!=") {
    return Equal(left, right, work) == (text == "==");
  }
  if (text == "in") {
    return Contains(right, left, work);
  }
  if (text == "<" || text == ">" || text == "<=" || text == ">=") {
    const bool comparable = (left.is_number() && right.is_number()) || (left.is_string() && right.is_string());
    if (!comparable) {
      work.Refuse(std::string("compares ") + left.type_name() + " with " + right.type_name());
    }
    work.Take(left);
    return text == "<" ? left < right : text == ">" ? left > right : text == "<=" ? left <= right : left >= right;
  }
  const bool joins = text == "+" && left.type() == right.type() && (left.is_string() || left.is_array());
  if (joins) {
    work.Take(left);
    work.Take(right);
  }
  if (joins && left.is_string()) {
    return left.get_ref<const std::string&>() + right.get_ref<const std::string&>();
  }
  if (joins) {
    Value both = left;
    both.insert(both.end(), right.begin(), right.end());
    return both;
  }
  if (text == "*" && left.is_string() && right.is_number_integer()) {
    return Repeated(left.get_ref<const std::string&>(), right.get<std::int64_t>(), work);
  }
  return Arithmetic(text, left, right, work);
}

Value Arithmetic(const std::string& text, const Value& left, const Value& right, const Work& work) {
  const auto numeric = [](const Value& value) { return value.is_number() || value.is_boolean(); };
  if (!numeric(left) || !numeric(right)) {
    const auto name = [](const Value& value) {
      return value.is_discarded() ? "an undefined value" : value.type_name();
    };
    work.Refuse(fmt::format("computes {} {} {}", name(left), text, name(right)));
  }
  const bool whole = !left.is_number_float() && !right.is_number_float() && text != "/";
  const auto number = [](const Value& value) {
    return value.is_boolean() ? static_cast<double>(value.get<bool>()) : value.get<double>();
  };
  const double a = number(left);
  const double b = number(right);
  if ((text == "/" || text == "//" || text == "%") && b == 0) {
    work.Refuse("divides by zero");
  }
  const double result = text == "+"    ? a + b
                        : text == "-"  ? a - b
                        : text == "*"  ? a * b
                        : text == "/"  ? a / b
                        : text == "//" ? std::floor(a / b)
                        : text == "%"  ? a - b * std::floor(a / b)
                                       : std::pow(a, b);
  if (!(std::abs(result) <= kLargestWhole) && whole) {
    work.Refuse("computes a number beyond 2^53");
  }
  return whole && result == std::floor(result) ? Value(static_cast<std::int64_t>(result)) : Value(result);
}

}  // namespace trireme::jinja
