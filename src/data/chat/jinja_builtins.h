// Filters, tests and methods that templates may use. Anything else is an Error that names it and its place. What they
// write and go through is counted as work; the caller counts the value that they return.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "data/chat/jinja_tree.h"
#include "data/chat/jinja_work.h"

namespace trireme::jinja {

struct Arguments {
  std::vector<Value> values;
  std::vector<std::pair<std::string, Value>> named;

  // The argument of this place or name; undefined when it is not given.
  Value Get(std::size_t place, const std::string& name) const;
};

Value ApplyFilter(const std::string& name, const Value& value, const Arguments& arguments, Work& work);
// `is defined` is answered by the caller for names of functions.
bool ApplyTest(const std::string& name, const Value& value, const Arguments& arguments, Work& work);
// value.name(arguments): methods of strings and dictionaries.
Value CallMethod(const Value& value, const std::string& name, const Arguments& arguments, Work& work);

// value[index], negative from the end; undefined when there is none.
Value ItemOf(const Value& value, const Value& index, Work& work);
// A pointer to the item within `value`; null where it is no part of it: a missing item, a character of a text.
const Value* PlaceOf(const Value& value, const Value& index, Work& work);
bool Contains(const Value& container, const Value& item, Work& work);
bool Equal(const Value& left, const Value& right, Work& work);
// Items of a list, keys of a dictionary, characters of a string; none of undefined.
std::vector<Value> Iterate(const Value& value, Work& work);
std::int64_t LengthOf(const Value& value, Work& work);

}  // namespace trireme::jinja
