// Filters, tests and methods that templates may use. Anything else is an Error that names it.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "data/chat/jinja_tree.h"

namespace trireme::jinja {

struct Arguments {
  std::vector<Value> values;
  std::vector<std::pair<std::string, Value>> named;

  // The argument of this place or name; undefined when it is not given.
  Value Get(std::size_t place, const std::string& name) const;
};

Value ApplyFilter(const std::string& name, const Value& value, const Arguments& arguments);
// `is defined` is answered by the caller for names of functions.
bool ApplyTest(const std::string& name, const Value& value, const Arguments& arguments);
// value.name(arguments): methods of strings and dictionaries.
Value CallMethod(const Value& value, const std::string& name, const Arguments& arguments);

// value[index], negative from the end; undefined when there is none.
Value ItemOf(const Value& value, const Value& index);
bool Contains(const Value& container, const Value& item);
// Items of a list, keys of a dictionary, characters of a string; none of undefined.
std::vector<Value> Iterate(const Value& value);
std::int64_t LengthOf(const Value& value);

}  // namespace trireme::jinja
