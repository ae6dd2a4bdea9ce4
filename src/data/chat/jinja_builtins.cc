#include "data/chat/jinja_builtins.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "data/chat/python_text.h"

namespace trireme::jinja {
namespace {

std::string NameOf(const Value& value) { return value.is_discarded() ? "an undefined value" : value.type_name(); }

std::string TextOf(const Value& value, const std::string& place, const Work& work) {
  if (!value.is_string()) {
    work.Refuse("uses '" + place + "' on " + NameOf(value) + ", which is no text");
  }
  return value.get<std::string>();
}

std::optional<std::string> OptionalText(const Value& value) {
  return value.is_string() ? std::optional<std::string>(value.get<std::string>()) : std::nullopt;
}

// Text of a value, counted.
std::string Printed(const Value& value, Work& work) {
  work.Take(value);
  return PythonText(value);
}

Value ListOf(const std::vector<Value>& items) {
  Value list = Value::array();
  std::for_each(items.begin(), items.end(), [&](const Value& item) { list.push_back(item); });
  return list;
}

// "a.b" names an attribute of an attribute. The value lies within `value`, or is undefined.
const Value& AttributeOf(const Value& value, const std::string& path, Work& work) {
  static const Value kUndefined = Undefined();
  const Value* found = &value;
  for (const std::string& name : Split(path, std::string("."), -1, work)) {
    found = PlaceOf(*found, name, work);
    if (found == nullptr) {
      return kUndefined;
    }
  }
  return *found;
}

bool Passes(const Value& value, const Arguments& arguments, std::size_t first, Work& work) {
  if (arguments.values.size() <= first) {
    return IsTrue(value);
  }
  Arguments rest;
  rest.values.assign(arguments.values.begin() + static_cast<std::ptrdiff_t>(first) + 1, arguments.values.end());
  std::for_each(rest.values.begin(), rest.values.end(), [&](const Value& argument) { work.Take(argument); });
  return ApplyTest(TextOf(arguments.values[first], "select", work), value, rest, work);
}

// select, reject, selectattr and rejectattr.
Value Select(const Value& value, const Arguments& arguments, bool by_attribute, bool keep, Work& work) {
  Value kept = Value::array();
  for (const Value& item : Iterate(value, work)) {
    const bool passes = by_attribute
                            ? Passes(AttributeOf(item, TextOf(arguments.Get(0, "attribute"), "selectattr", work), work),
                                     arguments, 1, work)
                            : Passes(item, arguments, 0, work);
    if (passes == keep) {
      kept.push_back(item);
    }
  }
  return kept;
}

Value Map(const Value& value, const Arguments& arguments, Work& work) {
  Value made = Value::array();
  const Value attribute = arguments.Get(1000, "attribute");
  for (const Value& item : Iterate(value, work)) {
    made.push_back(attribute.is_string() ? AttributeOf(item, attribute.get<std::string>(), work)
                                         : ApplyFilter(TextOf(arguments.Get(0, ""), "map", work), item, {}, work));
    work.Take(made.back());
  }
  return made;
}

Value Join(const Value& value, const Arguments& arguments, Work& work) {
  const std::string between = OptionalText(arguments.Get(0, "d")).value_or("");
  const std::optional<std::string> attribute = OptionalText(arguments.Get(1, "attribute"));
  std::string text;
  bool first = true;
  for (const Value& item : Iterate(value, work)) {
    work.Take(between.size());
    text += first ? "" : between;
    text += Printed(attribute.has_value() ? AttributeOf(item, *attribute, work) : item, work);
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

Value ToInteger(const Value& value, const Work& work) {
  if (value.is_string()) {
    try {
      return static_cast<std::int64_t>(std::stoll(value.get<std::string>()));
    } catch (const std::exception&) {
      return std::int64_t{0};
    }
  }
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (std::isnan(number)) {
      return std::int64_t{0};
    }
    if (std::abs(number) > kLargestWhole) {
      work.Refuse("takes 'int' of a number beyond 2^53");
    }
    return static_cast<std::int64_t>(number);
  }
  return value.is_number() ? value : Value(IsTrue(value) ? 1 : 0);
}

Value Capitalized(const std::string& text) {
  if (text.empty()) {
    return text;
  }
  const std::string_view first = Characters(text)[0];
  return Upper(first) + Lower(std::string_view(text).substr(first.size()));
}

// An indentation: a whole number, below 0 as 0, or nothing.
std::optional<std::size_t> WidthOf(const Value& width, const std::string& place, const Work& work) {
  if (width.is_discarded() || width.is_null()) {
    return std::nullopt;
  }
  if (!width.is_number_integer()) {
    work.Refuse("gives '" + place + "' a width of " + NameOf(width));
  }
  const bool negative = !width.is_number_unsigned() && width.get<std::int64_t>() < 0;
  return negative ? 0 : width.get<std::size_t>();
}

Value Indented(const Value& value, const Arguments& arguments, Work& work) {
  const Value width = arguments.Get(0, "width");
  const bool first = IsTrue(arguments.Get(1, "first"));
  const bool blank = IsTrue(arguments.Get(2, "blank"));
  const std::vector<std::string> lines = Split(TextOf(value, "indent", work), std::string("\n"), -1, work);
  std::string margin = OptionalText(width).value_or("");
  if (!width.is_string()) {
    const std::size_t spaces = WidthOf(width, "indent", work).value_or(4);
    work.Take(spaces);
    margin.assign(spaces, ' ');
  }
  work.Take(margin.size(), lines.size());
  std::string out;
  for (std::size_t number = 0; number < lines.size(); ++number) {
    out += number == 0 ? "" : "\n";
    out += (number == 0 ? first : blank || !lines[number].empty()) ? margin + lines[number] : lines[number];
  }
  return out;
}

using Filter = std::function<Value(const Value&, const Arguments&, Work&)>;

const std::map<std::string, Filter>& Filters() {
  static const std::map<std::string, Filter> kFilters = {
      {"trim", [](const Value& v, const Arguments& a,
                  Work& w) { return Value(Strip(Printed(v, w), Side::kBoth, OptionalText(a.Get(0, "chars")))); }},
      {"length", [](const Value& v, const Arguments&, Work& w) { return Value(LengthOf(v, w)); }},
      {"count", [](const Value& v, const Arguments&, Work& w) { return Value(LengthOf(v, w)); }},
      {"upper", [](const Value& v, const Arguments&, Work& w) { return Value(Upper(Printed(v, w))); }},
      {"lower", [](const Value& v, const Arguments&, Work& w) { return Value(Lower(Printed(v, w))); }},
      {"capitalize", [](const Value& v, const Arguments&, Work& w) { return Capitalized(Printed(v, w)); }},
      {"string", [](const Value& v, const Arguments&, Work& w) { return Value(Printed(v, w)); }},
      {"safe", [](const Value& v, const Arguments&, Work&) { return v; }},
      {"int", [](const Value& v, const Arguments&, Work& w) { return ToInteger(v, w); }},
      {"list", [](const Value& v, const Arguments&, Work& w) { return ListOf(Iterate(v, w)); }},
      {"items", [](const Value& v, const Arguments&, Work&) { return Items(v); }},
      {"first", [](const Value& v, const Arguments&,
                   Work& w) { return LengthOf(v, w) == 0 ? Undefined() : Iterate(v, w).front(); }},
      {"last", [](const Value& v, const Arguments&,
                  Work& w) { return LengthOf(v, w) == 0 ? Undefined() : Iterate(v, w).back(); }},
      {"reverse",
       [](const Value& v, const Arguments&, Work& w) {
         std::vector<Value> items = Iterate(v, w);
         std::reverse(items.begin(), items.end());
         return v.is_string() ? Join(ListOf(items), {}, w) : ListOf(items);
       }},
      {"join", Join},
      {"map", Map},
      {"indent", Indented},
      {"replace",
       [](const Value& v, const Arguments& a, Work& w) {
         return Value(
             Replace(Printed(v, w), TextOf(a.Get(0, "old"), "replace", w), TextOf(a.Get(1, "new"), "replace", w), w));
       }},
      {"tojson",
       [](const Value& v, const Arguments& a, Work& w) {
         w.Take(v);
         return Value(PythonJson(v, WidthOf(a.Get(0, "indent"), "tojson", w), w));
       }},
      {"default",
       [](const Value& v, const Arguments& a, Work&) {
         const bool missing = v.is_discarded() || (IsTrue(a.Get(1, "boolean")) && !IsTrue(v));
         const Value other = a.Get(0, "default_value");
         return missing ? (other.is_discarded() ? Value("") : other) : v;
       }},
      {"select", [](const Value& v, const Arguments& a, Work& w) { return Select(v, a, false, true, w); }},
      {"reject", [](const Value& v, const Arguments& a, Work& w) { return Select(v, a, false, false, w); }},
      {"selectattr", [](const Value& v, const Arguments& a, Work& w) { return Select(v, a, true, true, w); }},
      {"rejectattr", [](const Value& v, const Arguments& a, Work& w) { return Select(v, a, true, false, w); }},
  };
  return kFilters;
}

using Test = std::function<bool(const Value&, const Arguments&, Work&)>;

const std::map<std::string, Test>& Tests() {
  static const Test kEqual = [](const Value& v, const Arguments& a, Work& w) { return Equal(v, a.Get(0, ""), w); };
  static const std::map<std::string, Test> kTests = {
      {"defined", [](const Value& v, const Arguments&, Work&) { return !v.is_discarded(); }},
      {"undefined", [](const Value& v, const Arguments&, Work&) { return v.is_discarded(); }},
      {"none", [](const Value& v, const Arguments&, Work&) { return v.is_null(); }},
      {"string", [](const Value& v, const Arguments&, Work&) { return v.is_string(); }},
      {"mapping", [](const Value& v, const Arguments&, Work&) { return v.is_object(); }},
      {"iterable",
       [](const Value& v, const Arguments&, Work&) { return v.is_string() || v.is_structured() || v.is_discarded(); }},
      {"sequence",
       [](const Value& v, const Arguments&, Work&) { return v.is_string() || v.is_structured() || v.is_discarded(); }},
      {"boolean", [](const Value& v, const Arguments&, Work&) { return v.is_boolean(); }},
      {"number", [](const Value& v, const Arguments&, Work&) { return v.is_number() || v.is_boolean(); }},
      {"integer", [](const Value& v, const Arguments&, Work&) { return v.is_number_integer(); }},
      {"float", [](const Value& v, const Arguments&, Work&) { return v.is_number_float(); }},
      {"true", [](const Value& v, const Arguments&, Work&) { return v.is_boolean() && v.get<bool>(); }},
      {"false", [](const Value& v, const Arguments&, Work&) { return v.is_boolean() && !v.get<bool>(); }},
      {"odd",
       [](const Value& v, const Arguments&, Work&) { return v.is_number_integer() && v.get<std::int64_t>() % 2 != 0; }},
      {"even",
       [](const Value& v, const Arguments&, Work&) { return v.is_number_integer() && v.get<std::int64_t>() % 2 == 0; }},
      {"equalto", kEqual},
      {"eq", kEqual},
      {"ne", [](const Value& v, const Arguments& a, Work& w) { return !Equal(v, a.Get(0, ""), w); }},
      {"in", [](const Value& v, const Arguments& a, Work& w) { return Contains(a.Get(0, ""), v, w); }},
  };
  return kTests;
}

Value CallTextMethod(const std::string& text, const std::string& name, const Arguments& a, Work& work) {
  const std::optional<std::string> first = OptionalText(a.Get(0, ""));
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    work.Take(text.size());
    return Strip(text, name == "strip" ? Side::kBoth : name == "lstrip" ? Side::kLeft : Side::kRight, first);
  }
  if (name == "split") {
    const Value most = a.Get(1, "maxsplit");
    return Value(Split(text, first, most.is_number_integer() ? most.get<std::int64_t>() : -1, work));
  }
  if (name == "startswith" || name == "endswith") {
    bool found = false;
    const std::vector<Value> ends =
        a.Get(0, "").is_array() ? Iterate(a.Get(0, ""), work) : std::vector<Value>{a.Get(0, "")};
    for (const Value& end : ends) {
      const std::string affix = TextOf(end, name, work);
      found = found || (name == "startswith" ? text.starts_with(affix) : text.ends_with(affix));
    }
    return found;
  }
  if (name == "replace") {
    return Replace(text, TextOf(a.Get(0, "old"), name, work), TextOf(a.Get(1, "new"), name, work), work);
  }
  if (name == "join") {
    Arguments between;
    between.values.emplace_back(text);
    return Join(a.Get(0, ""), between, work);
  }
  if (name == "upper" || name == "lower") {
    return name == "upper" ? Upper(text) : Lower(text);
  }
  if (name == "capitalize") {
    return Capitalized(text);
  }
  work.Refuse("calls the method '" + name + "' of a text, which is not covered");
}

}  // namespace

Value Arguments::Get(std::size_t place, const std::string& name) const {
  if (place < values.size()) {
    return values[place];
  }
  const auto found = std::find_if(named.begin(), named.end(), [&](const auto& pair) { return pair.first == name; });
  return found == named.end() ? Undefined() : found->second;
}

Value ApplyFilter(const std::string& name, const Value& value, const Arguments& arguments, Work& work) {
  const auto found = Filters().find(name == "d" ? "default" : name);
  if (found == Filters().end()) {
    work.Refuse("uses the filter '" + name + "', which is not covered");
  }
  return found->second(value, arguments, work);
}

bool ApplyTest(const std::string& name, const Value& value, const Arguments& arguments, Work& work) {
  const auto found = Tests().find(name == "==" ? "eq" : name);
  if (found == Tests().end()) {
    work.Refuse("uses the test 'is " + name + "', which is not covered");
  }
  return found->second(value, arguments, work);
}

Value CallMethod(const Value& value, const std::string& name, const Arguments& arguments, Work& work) {
  if (value.is_string()) {
    return CallTextMethod(value.get<std::string>(), name, arguments, work);
  }
  if (value.is_object() && name == "items") {
    return Items(value);
  }
  if (value.is_object() && name == "keys") {
    return ListOf(Iterate(value, work));
  }
  if (value.is_object() && name == "values") {
    Value list = Value::array();
    for (const auto& [key, item] : value.items()) {
      list.push_back(item);
    }
    return list;
  }
  if (value.is_object() && name == "get") {
    const Value found = ItemOf(value, arguments.Get(0, ""), work);
    const Value other = arguments.Get(1, "default");
    return !found.is_discarded() ? found : other.is_discarded() ? Value(nullptr) : other;
  }
  work.Refuse("calls '" + name + "' of " + NameOf(value) + ", which is not covered");
}

const Value* PlaceOf(const Value& value, const Value& index, Work& work) {
  if (value.is_object()) {
    work.TakeKeys(value.size());
    const auto found = index.is_string() ? value.find(index.get_ref<const std::string&>()) : value.end();
    return found == value.end() ? nullptr : &*found;
  }
  if (!index.is_number_integer() || !value.is_array()) {
    return nullptr;
  }
  const auto length = static_cast<std::int64_t>(value.size());
  const auto wanted = index.get<std::int64_t>();
  const std::int64_t place = wanted < 0 ? wanted + length : wanted;
  return place < 0 || place >= length ? nullptr : &value[static_cast<std::size_t>(place)];
}

Value ItemOf(const Value& value, const Value& index, Work& work) {
  if (const Value* place = PlaceOf(value, index, work); place != nullptr) {
    return *place;
  }
  if (!index.is_number_integer() || !value.is_string()) {
    return Undefined();
  }
  const std::int64_t length = LengthOf(value, work);
  const auto wanted = index.get<std::int64_t>();
  const std::int64_t place = wanted < 0 ? wanted + length : wanted;
  if (place < 0 || place >= length) {
    return Undefined();
  }
  std::string_view text = value.get_ref<const std::string&>();
  for (std::int64_t i = 0; i < place; ++i) {
    text.remove_prefix(FirstCharacter(text).size());
  }
  return Value(std::string(FirstCharacter(text)));
}

bool Contains(const Value& container, const Value& item, Work& work) {
  if (container.is_string()) {
    const auto& text = container.get_ref<const std::string&>();
    work.Take(text.size());
    return Find(text, TextOf(item, "in", work)) != std::string_view::npos;
  }
  if (container.is_object()) {
    return item.is_string() && container.contains(item.get_ref<const std::string&>());
  }
  if (!container.is_array() && !container.is_discarded()) {
    work.Refuse("looks into " + NameOf(container) + ", which holds nothing");
  }
  if (container.is_array()) {
    work.Take(container);
  }
  return container.is_array() && std::find(container.begin(), container.end(), item) != container.end();
}

bool Equal(const Value& left, const Value& right, Work& work) {
  if (left.is_discarded() || right.is_discarded()) {
    return left.is_discarded() && right.is_discarded();
  }
  if (left.type() == right.type()) {
    work.Take(left);
  }
  return left == right;
}

std::vector<Value> Iterate(const Value& value, Work& work) {
  work.Take(value);
  std::vector<Value> items;
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    work.Take(2 * sizeof(std::string), CountCharacters(text));
    for (const std::string_view character : Characters(text)) {
      items.emplace_back(std::string(character));
    }
  } else if (value.is_object()) {
    for (const auto& [key, item] : value.items()) {
      items.emplace_back(key);
    }
  } else if (value.is_array()) {
    items.assign(value.begin(), value.end());
  } else if (!value.is_discarded()) {
    work.Refuse("goes through " + NameOf(value) + ", which holds nothing");
  }
  return items;
}

std::int64_t LengthOf(const Value& value, Work& work) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    work.Take(text.size());
    return static_cast<std::int64_t>(CountCharacters(text));
  }
  if (!value.is_structured() && !value.is_discarded()) {
    work.Refuse("asks for the length of " + NameOf(value));
  }
  return value.is_discarded() ? 0 : static_cast<std::int64_t>(value.size());
}

}  // namespace trireme::jinja
