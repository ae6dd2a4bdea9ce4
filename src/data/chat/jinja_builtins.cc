#include "data/chat/jinja_builtins.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "data/chat/python_text.h"

namespace trireme::jinja {
namespace {

std::string TextOf(const Value& value, const std::string& place) {
  Require(value.is_string(), "a chat template uses '{}' on {}, which is no text", place,
          value.is_discarded() ? "an undefined value" : value.type_name());
  return value.get<std::string>();
}

std::optional<std::string> OptionalText(const Value& value) {
  return value.is_string() ? std::optional<std::string>(value.get<std::string>()) : std::nullopt;
}

Value ListOf(const std::vector<Value>& items) {
  Value list = Value::array();
  std::for_each(items.begin(), items.end(), [&](const Value& item) { list.push_back(item); });
  return list;
}

// "a.b" names an attribute of an attribute.
Value AttributeOf(Value value, const std::string& path) {
  for (const std::string& name : Split(path, std::string("."), -1)) {
    value = value.is_object() && value.contains(name) ? Value(value.at(name)) : Undefined();
  }
  return value;
}

bool Passes(const Value& value, const Arguments& arguments, std::size_t first) {
  if (arguments.values.size() <= first) {
    return IsTrue(value);
  }
  Arguments rest;
  rest.values.assign(arguments.values.begin() + static_cast<std::ptrdiff_t>(first) + 1, arguments.values.end());
  return ApplyTest(TextOf(arguments.values[first], "select"), value, rest);
}

// select, reject, selectattr and rejectattr.
Value Select(const Value& value, const Arguments& arguments, bool by_attribute, bool keep) {
  Value kept = Value::array();
  for (const Value& item : Iterate(value)) {
    const Value tested = by_attribute ? AttributeOf(item, TextOf(arguments.Get(0, "attribute"), "selectattr")) : item;
    if (Passes(tested, arguments, by_attribute ? 1 : 0) == keep) {
      kept.push_back(item);
    }
  }
  return kept;
}

Value Map(const Value& value, const Arguments& arguments) {
  Value made = Value::array();
  const Value attribute = arguments.Get(1000, "attribute");
  for (const Value& item : Iterate(value)) {
    made.push_back(attribute.is_string() ? AttributeOf(item, attribute.get<std::string>())
                                         : ApplyFilter(TextOf(arguments.Get(0, ""), "map"), item, {}));
  }
  return made;
}

Value Join(const Value& value, const Arguments& arguments) {
  const std::string between = OptionalText(arguments.Get(0, "d")).value_or("");
  const std::optional<std::string> attribute = OptionalText(arguments.Get(1, "attribute"));
  std::string text;
  bool first = true;
  for (const Value& item : Iterate(value)) {
    text += (first ? "" : between) + PythonText(attribute.has_value() ? AttributeOf(item, *attribute) : item);
    first = false;
  }
  return text;
}

Value Items(const Value& value) {
  Value list = Value::array();
  if (value.is_object()) {
    for (const auto& [key, item] : value.items()) {
      list.push_back(Value::array({key, item}));
    }
  }
  return list;
}

Value ToInteger(const Value& value) {
  if (value.is_string()) {
    try {
      return static_cast<std::int64_t>(std::stoll(value.get<std::string>()));
    } catch (const std::exception&) {
      return std::int64_t{0};
    }
  }
  return value.is_number() ? Value(static_cast<std::int64_t>(value.get<double>())) : Value(IsTrue(value) ? 1 : 0);
}

Value Capitalized(const std::string& text) {
  const std::vector<std::string> characters = Characters(text);
  return characters.empty() ? std::string()
                            : Upper(characters[0]) + Lower(std::string_view(text).substr(characters[0].size()));
}

Value Indented(const Value& value, const Arguments& arguments) {
  const Value width = arguments.Get(0, "width");
  const bool first = IsTrue(arguments.Get(1, "first"));
  const bool blank = IsTrue(arguments.Get(2, "blank"));
  const std::string margin = width.is_string()
                                 ? width.get<std::string>()
                                 : std::string(width.is_number() ? width.get<std::size_t>() : std::size_t{4}, ' ');
  std::string out;
  std::size_t number = 0;
  for (const std::string& line : Split(TextOf(value, "indent"), std::string("\n"), -1)) {
    out += number == 0 ? "" : "\n";
    out += (number == 0 ? first : blank || !line.empty()) ? margin + line : line;
    ++number;
  }
  return out;
}

using Filter = std::function<Value(const Value&, const Arguments&)>;

const std::map<std::string, Filter>& Filters() {
  static const std::map<std::string, Filter> kFilters = {
      {"trim",
       [](const Value& v, const Arguments& a) {
         return Value(Strip(PythonText(v), Side::kBoth, OptionalText(a.Get(0, "chars"))));
       }},
      {"length", [](const Value& v, const Arguments&) { return Value(LengthOf(v)); }},
      {"count", [](const Value& v, const Arguments&) { return Value(LengthOf(v)); }},
      {"upper", [](const Value& v, const Arguments&) { return Value(Upper(PythonText(v))); }},
      {"lower", [](const Value& v, const Arguments&) { return Value(Lower(PythonText(v))); }},
      {"capitalize", [](const Value& v, const Arguments&) { return Capitalized(PythonText(v)); }},
      {"string", [](const Value& v, const Arguments&) { return Value(PythonText(v)); }},
      {"safe", [](const Value& v, const Arguments&) { return v; }},
      {"int", [](const Value& v, const Arguments&) { return ToInteger(v); }},
      {"list", [](const Value& v, const Arguments&) { return ListOf(Iterate(v)); }},
      {"items", [](const Value& v, const Arguments&) { return Items(v); }},
      {"first", [](const Value& v, const Arguments&) { return LengthOf(v) == 0 ? Undefined() : Iterate(v).front(); }},
      {"last", [](const Value& v, const Arguments&) { return LengthOf(v) == 0 ? Undefined() : Iterate(v).back(); }},
      {"reverse",
       [](const Value& v, const Arguments&) {
         std::vector<Value> items = Iterate(v);
         std::reverse(items.begin(), items.end());
         return v.is_string() ? Join(ListOf(items), {}) : ListOf(items);
       }},
      {"join", Join},
      {"map", Map},
      {"indent", Indented},
      {"replace",
       [](const Value& v, const Arguments& a) {
         return Value(Replace(PythonText(v), TextOf(a.Get(0, "old"), "replace"), TextOf(a.Get(1, "new"), "replace")));
       }},
      {"tojson",
       [](const Value& v, const Arguments& a) {
         const Value indent = a.Get(0, "indent");
         return Value(PythonJson(v, indent.is_number() ? indent.get<int>() : -1));
       }},
      {"default",
       [](const Value& v, const Arguments& a) {
         const bool missing = v.is_discarded() || (IsTrue(a.Get(1, "boolean")) && !IsTrue(v));
         const Value other = a.Get(0, "default_value");
         return missing ? (other.is_discarded() ? Value("") : other) : v;
       }},
      {"select", [](const Value& v, const Arguments& a) { return Select(v, a, false, true); }},
      {"reject", [](const Value& v, const Arguments& a) { return Select(v, a, false, false); }},
      {"selectattr", [](const Value& v, const Arguments& a) { return Select(v, a, true, true); }},
      {"rejectattr", [](const Value& v, const Arguments& a) { return Select(v, a, true, false); }},
  };
  return kFilters;
}

using Test = std::function<bool(const Value&, const Arguments&)>;

const std::map<std::string, Test>& Tests() {
  static const Test kEqual = [](const Value& v, const Arguments& a) { return v == a.Get(0, ""); };
  static const std::map<std::string, Test> kTests = {
      {"defined", [](const Value& v, const Arguments&) { return !v.is_discarded(); }},
      {"undefined", [](const Value& v, const Arguments&) { return v.is_discarded(); }},
      {"none", [](const Value& v, const Arguments&) { return v.is_null(); }},
      {"string", [](const Value& v, const Arguments&) { return v.is_string(); }},
      {"mapping", [](const Value& v, const Arguments&) { return v.is_object(); }},
      {"iterable",
       [](const Value& v, const Arguments&) { return v.is_string() || v.is_structured() || v.is_discarded(); }},
      {"sequence",
       [](const Value& v, const Arguments&) { return v.is_string() || v.is_structured() || v.is_discarded(); }},
      {"boolean", [](const Value& v, const Arguments&) { return v.is_boolean(); }},
      {"number", [](const Value& v, const Arguments&) { return v.is_number() || v.is_boolean(); }},
      {"integer", [](const Value& v, const Arguments&) { return v.is_number_integer(); }},
      {"float", [](const Value& v, const Arguments&) { return v.is_number_float(); }},
      {"true", [](const Value& v, const Arguments&) { return v.is_boolean() && v.get<bool>(); }},
      {"false", [](const Value& v, const Arguments&) { return v.is_boolean() && !v.get<bool>(); }},
      {"odd", [](const Value& v, const Arguments&) { return v.is_number_integer() && v.get<std::int64_t>() % 2 != 0; }},
      {"even",
       [](const Value& v, const Arguments&) { return v.is_number_integer() && v.get<std::int64_t>() % 2 == 0; }},
      {"equalto", kEqual},
      {"eq", kEqual},
      {"ne", [](const Value& v, const Arguments& a) { return v != a.Get(0, ""); }},
      {"in", [](const Value& v, const Arguments& a) { return Contains(a.Get(0, ""), v); }},
  };
  return kTests;
}

Value CallTextMethod(const std::string& text, const std::string& name, const Arguments& a) {
  const std::optional<std::string> first = OptionalText(a.Get(0, ""));
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    return Strip(text, name == "strip" ? Side::kBoth : name == "lstrip" ? Side::kLeft : Side::kRight, first);
  }
  if (name == "split") {
    const Value most = a.Get(1, "maxsplit");
    return Value(Split(text, first, most.is_number() ? most.get<std::int64_t>() : -1));
  }
  if (name == "startswith" || name == "endswith") {
    bool found = false;
    const std::vector<Value> ends = a.Get(0, "").is_array() ? Iterate(a.Get(0, "")) : std::vector<Value>{a.Get(0, "")};
    for (const Value& end : ends) {
      const std::string affix = TextOf(end, name);
      found = found || (name == "startswith" ? text.starts_with(affix) : text.ends_with(affix));
    }
    return found;
  }
  if (name == "replace") {
    return Replace(text, TextOf(a.Get(0, "old"), name), TextOf(a.Get(1, "new"), name));
  }
  if (name == "join") {
    Arguments between;
    between.values.emplace_back(text);
    return Join(a.Get(0, ""), between);
  }
  if (name == "upper" || name == "lower") {
    return name == "upper" ? Upper(text) : Lower(text);
  }
  if (name == "capitalize") {
    return Capitalized(text);
  }
  Fail("a chat template calls the method '{}' of a text, which is not covered", name);
}

}  // namespace

Value Arguments::Get(std::size_t place, const std::string& name) const {
  if (place < values.size()) {
    return values[place];
  }
  const auto found = std::find_if(named.begin(), named.end(), [&](const auto& pair) { return pair.first == name; });
  return found == named.end() ? Undefined() : found->second;
}

Value ApplyFilter(const std::string& name, const Value& value, const Arguments& arguments) {
  const auto found = Filters().find(name == "d" ? "default" : name);
  Require(found != Filters().end(), "a chat template uses the filter '{}', which is not covered", name);
  return found->second(value, arguments);
}

bool ApplyTest(const std::string& name, const Value& value, const Arguments& arguments) {
  const auto found = Tests().find(name == "==" ? "eq" : name);
  Require(found != Tests().end(), "a chat template uses the test 'is {}', which is not covered", name);
  return found->second(value, arguments);
}

Value CallMethod(const Value& value, const std::string& name, const Arguments& arguments) {
  if (value.is_string()) {
    return CallTextMethod(value.get<std::string>(), name, arguments);
  }
  if (value.is_object() && name == "items") {
    return Items(value);
  }
  if (value.is_object() && name == "keys") {
    return ListOf(Iterate(value));
  }
  if (value.is_object() && name == "values") {
    Value list = Value::array();
    for (const auto& [key, item] : value.items()) {
      list.push_back(item);
    }
    return list;
  }
  if (value.is_object() && name == "get") {
    const Value found = ItemOf(value, arguments.Get(0, ""));
    const Value other = arguments.Get(1, "default");
    return !found.is_discarded() ? found : other.is_discarded() ? Value(nullptr) : other;
  }
  Fail("a chat template calls '{}' of {}, which is not covered", name,
       value.is_discarded() ? "an undefined value" : value.type_name());
}

Value ItemOf(const Value& value, const Value& index) {
  if (value.is_object()) {
    return index.is_string() && value.contains(index.get<std::string>()) ? Value(value.at(index.get<std::string>()))
                                                                         : Undefined();
  }
  if (!index.is_number_integer() || !(value.is_array() || value.is_string())) {
    return Undefined();
  }
  const std::int64_t length = LengthOf(value);
  const auto wanted = index.get<std::int64_t>();
  const std::int64_t place = wanted < 0 ? wanted + length : wanted;
  if (place < 0 || place >= length) {
    return Undefined();
  }
  return value.is_array() ? Value(value[static_cast<std::size_t>(place)])
                          : Value(Characters(value.get<std::string>())[static_cast<std::size_t>(place)]);
}

bool Contains(const Value& container, const Value& item) {
  if (container.is_string()) {
    return container.get_ref<const std::string&>().find(TextOf(item, "in")) != std::string::npos;
  }
  if (container.is_object()) {
    return item.is_string() && container.contains(item.get<std::string>());
  }
  Require(container.is_array() || container.is_discarded(), "a chat template looks into {}, which holds nothing",
          container.type_name());
  return container.is_array() && std::find(container.begin(), container.end(), item) != container.end();
}

std::vector<Value> Iterate(const Value& value) {
  std::vector<Value> items;
  if (value.is_string()) {
    for (const std::string& character : Characters(value.get<std::string>())) {
      items.emplace_back(character);
    }
  } else if (value.is_object()) {
    for (const auto& [key, item] : value.items()) {
      items.emplace_back(key);
    }
  } else if (value.is_array()) {
    items.assign(value.begin(), value.end());
  } else {
    Require(value.is_discarded(), "a chat template goes through {}, which holds nothing", value.type_name());
  }
  return items;
}

std::int64_t LengthOf(const Value& value) {
  if (value.is_string()) {
    return static_cast<std::int64_t>(Characters(value.get<std::string>()).size());
  }
  Require(value.is_structured() || value.is_discarded(), "a chat template asks for the length of {}",
          value.type_name());
  return value.is_discarded() ? 0 : static_cast<std::int64_t>(value.size());
}

}  // namespace trireme::jinja
