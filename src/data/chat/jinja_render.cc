#include "data/chat/jinja_render.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "data/chat/jinja_builtins.h"
#include "data/chat/python_text.h"

namespace trireme::jinja {
namespace {

constexpr std::int64_t kMostSteps = 1'000'000;
constexpr std::size_t kMostRenderedBytes = std::size_t{64} << 20;
constexpr std::int64_t kLongestRange = 1'000'000;
constexpr std::array kFunctions = {"range", "namespace", "raise_exception", "strftime_now", "dict"};

bool IsFunction(const std::string& name) {
  return std::find(kFunctions.begin(), kFunctions.end(), name) != kFunctions.end();
}

class Renderer {
 public:
  Renderer(std::map<std::string, Value> variables, std::time_t now, const std::string& origin)
      : now_(now), origin_(origin) {
    scopes_.push_back(std::move(variables));
  }

  Rendered Run(const Block& block) {
    Execute(block);
    return std::move(out_);
  }

 private:
  enum class Flow { kGoOn, kBreak, kContinue };
  using Kind = Expression::Kind;

  Flow Execute(const Block& block) {
    for (const Statement& statement : block) {
      Count(statement.line);
      if (const Flow flow = Execute(statement); flow != Flow::kGoOn) {
        return flow;
      }
    }
    return Flow::kGoOn;
  }

  Flow Execute(const Statement& statement) {
    switch (statement.kind) {
      case Statement::Kind::kText:
        out_.text += statement.text;
        break;
      case Statement::Kind::kOutput:
        out_.text += PythonText(Evaluate(*statement.expression));
        break;
      case Statement::Kind::kIf:
        for (const Statement::Branch& branch : statement.branches) {
          if (branch.condition == nullptr || IsTrue(Evaluate(*branch.condition))) {
            return Execute(branch.body);
          }
        }
        break;
      case Statement::Kind::kFor:
        Loop(statement);
        break;
      case Statement::Kind::kSet:
        Assign(statement, Evaluate(*statement.expression));
        break;
      case Statement::Kind::kSetBlock: {
        Rendered outer = std::move(out_);
        out_ = {};
        Execute(statement.body);
        const std::string text = std::move(out_.text);
        out_ = std::move(outer);
        Assign(statement, text);
        break;
      }
      case Statement::Kind::kGeneration: {
        const std::size_t begin = out_.text.size();
        Execute(statement.body);
        out_.generated.emplace_back(begin, out_.text.size());
        break;
      }
      case Statement::Kind::kBreak:
        return Flow::kBreak;
      case Statement::Kind::kContinue:
        return Flow::kContinue;
    }
    if (out_.text.size() > kMostRenderedBytes) {
      Refuse(statement.line, "writes more than 64 MiB");
    }
    return Flow::kGoOn;
  }

  void Assign(const Statement& statement, Value value) {
    if (statement.attribute.empty()) {
      scopes_.back()[statement.names[0]] = std::move(value);
      return;
    }
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto found = scope->find(statement.names[0]); found != scope->end()) {
        if (!found->second.is_object()) {
          Refuse(statement.line, "sets an attribute of '" + statement.names[0] + "', which is no namespace");
        }
        found->second[statement.attribute] = std::move(value);
        return;
      }
    }
    Refuse(statement.line, "sets an attribute of '" + statement.names[0] + "', which is not defined");
  }

  void Bind(const Statement& statement, const Value& item) {
    if (statement.names.size() == 1) {
      scopes_.back()[statement.names[0]] = item;
      return;
    }
    const std::vector<Value> parts = Iterate(item);
    if (parts.size() != statement.names.size()) {
      Refuse(statement.line, "takes a value apart into another number of names than it has parts");
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      scopes_.back()[statement.names[i]] = parts[i];
    }
  }

  void Loop(const Statement& statement) {
    std::vector<Value> items = Iterate(Evaluate(*statement.expression));
    if (statement.condition != nullptr) {
      std::vector<Value> kept;
      for (const Value& item : items) {
        scopes_.emplace_back();
        Bind(statement, item);
        if (IsTrue(Evaluate(*statement.condition))) {
          kept.push_back(item);
        }
        scopes_.pop_back();
      }
      items = std::move(kept);
    }
    if (items.empty()) {
      Execute(statement.otherwise);
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      Count(statement.line);
      scopes_.emplace_back();
      scopes_.back()["loop"] = LoopVariable(items, i);
      Bind(statement, items[i]);
      const Flow flow = Execute(statement.body);
      scopes_.pop_back();
      if (flow == Flow::kBreak) {
        break;
      }
    }
  }

  static Value LoopVariable(const std::vector<Value>& items, std::size_t i) {
    Value loop = {{"index0", i},
                  {"index", i + 1},
                  {"revindex0", items.size() - 1 - i},
                  {"revindex", items.size() - i},
                  {"first", i == 0},
                  {"last", i + 1 == items.size()},
                  {"length", items.size()}};
    if (i > 0) {
      loop["previtem"] = items[i - 1];
    }
    if (i + 1 < items.size()) {
      loop["nextitem"] = items[i + 1];
    }
    return loop;
  }

  Value Lookup(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto found = scope->find(name); found != scope->end()) {
        return found->second;
      }
    }
    return Undefined();
  }

  Value Evaluate(const Expression& expression) {
    Count(expression.line);
    const auto& parts = expression.parts;
    switch (expression.kind) {
      case Kind::kLiteral:
        return expression.value;
      case Kind::kName:
        return Lookup(expression.text);
      case Kind::kList: {
        Value list = Value::array();
        for (const ExpressionPointer& part : parts) {
          list.push_back(Evaluate(*part));
        }
        return list;
      }
      case Kind::kDict: {
        Value dict = Value::object();
        for (std::size_t i = 0; i < parts.size(); i += 2) {
          dict[PythonText(Evaluate(*parts[i]))] = Evaluate(*parts[i + 1]);
        }
        return dict;
      }
      case Kind::kNot:
        return !IsTrue(Evaluate(*parts[0]));
      case Kind::kNegative:
        return Arithmetic("-", Value(0), Evaluate(*parts[0]), expression.line);
      case Kind::kAnd: {
        Value left = Evaluate(*parts[0]);
        return IsTrue(left) ? Evaluate(*parts[1]) : left;
      }
      case Kind::kOr: {
        Value left = Evaluate(*parts[0]);
        return IsTrue(left) ? left : Evaluate(*parts[1]);
      }
      case Kind::kBinary: {
        const Value left = Evaluate(*parts[0]);
        return Binary(expression.text, left, Evaluate(*parts[1]), expression.line);
      }
      case Kind::kTernary:
        if (IsTrue(Evaluate(*parts[1]))) {
          return Evaluate(*parts[0]);
        }
        return parts[2] == nullptr ? Undefined() : Evaluate(*parts[2]);
      case Kind::kAttribute:
        return Attribute(Evaluate(*parts[0]), Value(expression.text), expression.line);
      case Kind::kIndex: {
        const Value value = Evaluate(*parts[0]);
        return Attribute(value, Evaluate(*parts[1]), expression.line);
      }
      case Kind::kSlice:
        return Slice(expression);
      case Kind::kCall:
        return Call(expression);
      case Kind::kFilter:
        return ApplyFilter(expression.text, Evaluate(*parts[0]), ArgumentsOf(expression));
      case Kind::kTest:
        return Test(expression);
    }
    return Undefined();
  }

  Value Attribute(const Value& value, const Value& name, int line) const {
    if (value.is_discarded()) {
      Refuse(line, "asks for '" + PythonText(name) + "' of an undefined value");
    }
    return ItemOf(value, name);
  }

  bool Test(const Expression& expression) {
    const Expression& subject = *expression.parts[0];
    const bool asks = expression.text == "defined" || expression.text == "undefined";
    if (asks && subject.kind == Kind::kName && IsFunction(subject.text)) {
      return expression.text == "defined";
    }
    return ApplyTest(expression.text, Evaluate(subject), ArgumentsOf(expression));
  }

  Arguments ArgumentsOf(const Expression& call) {
    Arguments arguments;
    for (std::size_t i = 1; i < call.parts.size(); ++i) {
      arguments.values.push_back(Evaluate(*call.parts[i]));
    }
    for (const auto& [name, value] : call.named) {
      arguments.named.emplace_back(name, Evaluate(*value));
    }
    return arguments;
  }

  Value Call(const Expression& call) {
    const Expression& callee = *call.parts[0];
    if (callee.kind == Kind::kAttribute) {
      const Value value = Evaluate(*callee.parts[0]);
      return CallMethod(value, callee.text, ArgumentsOf(call));
    }
    if (callee.kind != Kind::kName || !IsFunction(callee.text)) {
      Refuse(call.line, "calls '" + callee.text + "', which is not covered");
    }
    const Arguments arguments = ArgumentsOf(call);
    if (callee.text == "raise_exception") {
      Fail("the chat template of '{}' refuses the conversation: {}", origin_, PythonText(arguments.Get(0, "message")));
    }
    if (callee.text == "strftime_now") {
      return TimeText(PythonText(arguments.Get(0, "format")));
    }
    if (callee.text == "range") {
      return Range(arguments, call.line);
    }
    Value made = Value::object();
    for (const auto& [name, value] : arguments.named) {
      made[name] = value;
    }
    return made;
  }

  std::string TimeText(const std::string& format) const {
    std::tm local = {};
    localtime_r(&now_, &local);
    std::array<char, 256> text = {};
    return {text.data(), std::strftime(text.data(), text.size(), format.c_str(), &local)};
  }

  Value Range(const Arguments& arguments, int line) const {
    std::array<std::int64_t, 3> limits = {0, 0, 1};
    const std::size_t given = arguments.values.size();
    for (std::size_t i = 0; i < given && i < limits.size(); ++i) {
      if (!arguments.values[i].is_number_integer()) {
        Refuse(line, "gives range() something else than whole numbers");
      }
      limits[given == 1 ? 1 : i] = arguments.values[i].get<std::int64_t>();
    }
    if (given == 0 || given > 3 || limits[2] == 0 || std::abs(limits[1] - limits[0]) > kLongestRange) {
      Refuse(line, "gives range() limits that it cannot have");
    }
    Value list = Value::array();
    for (std::int64_t i = limits[0]; limits[2] > 0 ? i < limits[1] : i > limits[1]; i += limits[2]) {
      list.push_back(i);
    }
    return list;
  }

  Value Slice(const Expression& slice) {
    const Value value = Evaluate(*slice.parts[0]);
    if (!value.is_array() && !value.is_string()) {
      Refuse(slice.line, "slices what is neither a list nor a text");
    }
    const std::vector<Value> items = Iterate(value);
    const auto length = static_cast<std::int64_t>(items.size());
    const auto limit = [&](std::size_t part, std::int64_t otherwise) {
      const Value given = slice.parts[part] == nullptr ? Value(nullptr) : Evaluate(*slice.parts[part]);
      return given.is_number_integer() ? given.get<std::int64_t>() : otherwise;
    };
    const std::int64_t step = limit(3, 1);
    if (step == 0) {
      Refuse(slice.line, "slices with a step of 0");
    }
    // Python's rule: limits count from the end where they are below 0 and are cut to what there is.
    const std::int64_t lowest = step > 0 ? 0 : -1;
    const std::int64_t highest = step > 0 ? length : length - 1;
    const auto placed = [&](std::int64_t place) {
      return std::clamp(place < 0 ? place + length : place, lowest, highest);
    };
    constexpr std::int64_t kNone = std::int64_t{1} << 62;
    const std::int64_t first = limit(1, kNone);
    const std::int64_t last = limit(2, kNone);
    const std::int64_t begin = first == kNone ? (step > 0 ? lowest : highest) : placed(first);
    const std::int64_t end = last == kNone ? (step > 0 ? highest : lowest) : placed(last);
    Value made = Value::array();
    std::string text;
    for (std::int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
      const Value& item = items[static_cast<std::size_t>(i)];
      if (value.is_string()) {
        text += item.get<std::string>();
      } else {
        made.push_back(item);
      }
    }
    return value.is_string() ? Value(text) : made;
  }

  Value Binary(const std::string& text, const Value& left, const Value& right, int line) const {
    if (text == "~") {
      return PythonText(left) + PythonText(right);
    }
    if (text == "==" || text == "!=") {
      const bool same =
          left.is_discarded() || right.is_discarded() ? left.is_discarded() && right.is_discarded() : left == right;
      return same == (text == "==");
    }
    if (text == "in") {
      return Contains(right, left);
    }
    if (text == "<" || text == ">" || text == "<=" || text == ">=") {
      const bool comparable = (left.is_number() && right.is_number()) || (left.is_string() && right.is_string());
      if (!comparable) {
        Refuse(line, std::string("compares ") + left.type_name() + " with " + right.type_name());
      }
      return text == "<" ? left < right : text == ">" ? left > right : text == "<=" ? left <= right : left >= right;
    }
    if (text == "+" && left.is_string() && right.is_string()) {
      return left.get<std::string>() + right.get<std::string>();
    }
    if (text == "+" && left.is_array() && right.is_array()) {
      Value both = left;
      both.insert(both.end(), right.begin(), right.end());
      return both;
    }
    if (text == "*" && left.is_string() && right.is_number_integer()) {
      return Repeated(left.get<std::string>(), right.get<std::int64_t>(), line);
    }
    return Arithmetic(text, left, right, line);
  }

  std::string Repeated(const std::string& text, std::int64_t times, int line) const {
    if (times > static_cast<std::int64_t>(kMostRenderedBytes / std::max<std::size_t>(text.size(), 1))) {
      Refuse(line, "writes more than 64 MiB");
    }
    std::string out;
    for (std::int64_t i = 0; i < times; ++i) {
      out += text;
    }
    return out;
  }

  Value Arithmetic(const std::string& text, const Value& left, const Value& right, int line) const {
    const auto numeric = [](const Value& value) { return value.is_number() || value.is_boolean(); };
    if (!numeric(left) || !numeric(right)) {
      const auto name = [](const Value& value) {
        return value.is_discarded() ? "an undefined value" : value.type_name();
      };
      Refuse(line, fmt::format("computes {} {} {}", name(left), text, name(right)));
    }
    const bool whole = !left.is_number_float() && !right.is_number_float() && text != "/";
    const auto number = [](const Value& value) {
      return value.is_boolean() ? static_cast<double>(value.get<bool>()) : value.get<double>();
    };
    const double a = number(left);
    const double b = number(right);
    if ((text == "/" || text == "//" || text == "%") && b == 0) {
      Refuse(line, "divides by zero");
    }
    const double result = text == "+"    ? a + b
                          : text == "-"  ? a - b
                          : text == "*"  ? a * b
                          : text == "/"  ? a / b
                          : text == "//" ? std::floor(a / b)
                          : text == "%"  ? a - b * std::floor(a / b)
                                         : std::pow(a, b);
    constexpr double kLargest = 9007199254740992.0;  // whole numbers are exact up to here
    if (!(std::abs(result) <= kLargest) && whole) {
      Refuse(line, "computes a number beyond 2^53");
    }
    return whole && result == std::floor(result) ? Value(static_cast<std::int64_t>(result)) : Value(result);
  }

  void Count(int line) {
    if (++steps_ > kMostSteps) {
      Refuse(line, "takes more than a million steps");
    }
  }
  [[noreturn]] void Refuse(int line, const std::string& message) const {
    Fail("the chat template of '{}', line {}: {}", origin_, line, message);
  }

  std::vector<std::map<std::string, Value>> scopes_;
  std::time_t now_;
  const std::string& origin_;
  Rendered out_;
  std::int64_t steps_ = 0;
};

}  // namespace

Rendered Render(const Block& block, std::map<std::string, Value> variables, std::time_t now,
                const std::string& origin) {
  return Renderer(std::move(variables), now, origin).Run(block);
}

}  // namespace trireme::jinja
