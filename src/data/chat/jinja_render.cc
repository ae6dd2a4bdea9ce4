#include "data/chat/jinja_render.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "data/chat/jinja_builtins.h"
#include "data/chat/jinja_operators.h"
#include "data/chat/jinja_work.h"
#include "data/chat/python_text.h"

namespace trireme::jinja {
namespace {

constexpr std::size_t kMostRenderedBytes = std::size_t{64} << 20;
constexpr std::uint64_t kLongestRange = 1'000'000;
constexpr std::array kFunctions = {"range", "namespace", "raise_exception", "strftime_now", "dict"};

bool IsFunction(const std::string& name) {
  return std::find(kFunctions.begin(), kFunctions.end(), name) != kFunctions.end();
}

// Places first, first + step, … of a range or a slice that ends before `end`: how many they are.
std::uint64_t CountPlaces(std::int64_t first, std::int64_t end, std::int64_t step) {
  if (step > 0 ? first >= end : first <= end) {
    return 0;
  }
  // Distances of 64-bit numbers fit their unsigned kind alone.
  const auto from = static_cast<std::uint64_t>(step > 0 ? first : end);
  const auto to = static_cast<std::uint64_t>(step > 0 ? end : first);
  const auto pace = step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
  return (to - from - 1) / pace + 1;
}

// The place of this number among them.
std::int64_t PlaceAt(std::int64_t first, std::int64_t step, std::uint64_t number) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(first) + static_cast<std::uint64_t>(step) * number);
}

class Renderer {
 public:
  Renderer(std::map<std::string, Value> variables, std::time_t now, const std::string& origin)
      : now_(now), origin_(origin), work_(origin) {
    scopes_.push_back(std::move(variables));
  }

  Rendered Run(const Block& block) {
    Execute(block);
    return std::move(out_);
  }

 private:
  enum class Flow { kNormal, kBreak, kContinue };
  using Kind = Expression::Kind;

  Flow Execute(const Block& block) {
    for (const Statement& statement : block) {
      work_.Step(statement.line);
      if (const Flow flow = Execute(statement); flow != Flow::kNormal) {
        return flow;
      }
    }
    return Flow::kNormal;
  }

  Flow Execute(const Statement& statement) {
    switch (statement.kind) {
      case Statement::Kind::kText:
        Write(statement.text);
        break;
      case Statement::Kind::kOutput:
        WriteValue(*statement.expression);
        break;
      case Statement::Kind::kIf:
        for (const Statement::Branch& branch : statement.branches) {
          if (branch.condition == nullptr || Holds(*branch.condition)) {
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
        work_.AtLine(statement.line);
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
    return Flow::kNormal;
  }

  void Write(const std::string& text) {
    work_.Take(text.size());
    if (text.size() > kMostRenderedBytes - out_.text.size()) {
      work_.Refuse("writes more than 64 MiB");
    }
    out_.text += text;
  }

  void WriteValue(const Expression& expression) {
    Value made;
    const Value& value = Refer(expression, made);
    work_.Take(value);
    Write(PythonText(value));
  }

  bool Holds(const Expression& condition) {
    Value made;
    return IsTrue(Refer(condition, made));
  }

  void Assign(const Statement& statement, Value value) {
    const std::string& name = statement.names[0];
    if (statement.attribute.empty()) {
      scopes_.back()[name] = std::move(value);
      return;
    }
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto found = scope->find(name); found != scope->end()) {
        if (!found->second.is_object()) {
          work_.Refuse("sets an attribute of '" + name + "', which is no namespace");
        }
        work_.TakeKeys(found->second.size());
        found->second[statement.attribute] = std::move(value);
        if (found->second[statement.attribute].is_structured()) {
          work_.Take(found->second);  // refuses what is nested too deep
        }
        return;
      }
    }
    work_.Refuse("sets an attribute of '" + name + "', which is not defined");
  }

  void Bind(const Statement& statement, const Value& item) {
    work_.Take(item);
    if (statement.names.size() == 1) {
      scopes_.back()[statement.names[0]] = item;
      return;
    }
    const std::vector<Value> parts = Iterate(item, work_);
    if (parts.size() != statement.names.size()) {
      work_.Refuse("takes a value apart into another number of names than it has parts");
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      scopes_.back()[statement.names[i]] = parts[i];
    }
  }

  void Loop(const Statement& statement) {
    std::vector<Value> items = ItemsOf(*statement.expression);
    if (statement.condition != nullptr) {
      std::vector<Value> kept;
      for (const Value& item : items) {
        scopes_.emplace_back();
        Bind(statement, item);
        if (Holds(*statement.condition)) {
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
      work_.Step(statement.line);
      scopes_.emplace_back();
      Value& loop = scopes_.back()["loop"];
      loop = LoopVariable(items, i);
      work_.Take(loop);
      Bind(statement, items[i]);
      const Flow flow = Execute(statement.body);
      scopes_.pop_back();
      if (flow == Flow::kBreak) {
        break;
      }
    }
  }

  std::vector<Value> ItemsOf(const Expression& expression) {
    Value made;
    return Iterate(Refer(expression, made), work_);
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

  // The value of an expression, without a copy of what a variable or a literal holds: valid until the next statement
  // and no longer than `made`, which holds a value that the expression makes.
  const Value& Refer(const Expression& expression, Value& made) {
    work_.Step(expression.line);
    if (expression.kind == Kind::kLiteral) {
      return expression.value;
    }
    if (expression.kind == Kind::kName) {
      for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
        if (const auto found = scope->find(expression.text); found != scope->end()) {
          return found->second;
        }
      }
      return made = Undefined();
    }
    if (expression.kind != Kind::kAttribute && expression.kind != Kind::kIndex) {
      made = Make(expression);
      work_.Take(made);
      return made;
    }
    const Value& value = Refer(*expression.parts[0], made);
    Value name = expression.kind == Kind::kAttribute ? Value(expression.text) : Evaluate(*expression.parts[1]);
    if (value.is_discarded()) {
      work_.Take(name);
      work_.Refuse("asks for '" + PythonText(name) + "' of an undefined value");
    }
    if (const Value* place = PlaceOf(value, name, work_); place != nullptr) {
      return *place;
    }
    Value item = ItemOf(value, name, work_);
    return made = std::move(item);
  }

  Value Evaluate(const Expression& expression) {
    Value made;
    const Value& value = Refer(expression, made);
    if (&value == &made) {
      return made;
    }
    work_.Take(value);
    return value;
  }

  // The value of an expression that makes one.
  Value Make(const Expression& expression) {
    const auto& parts = expression.parts;
    Value first;
    switch (expression.kind) {
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
          work_.TakeKeys(dict.size());
          const std::string key = PythonText(Evaluate(*parts[i]));
          dict[key] = Evaluate(*parts[i + 1]);
        }
        return dict;
      }
      case Kind::kNot:
        return !Holds(*parts[0]);
      case Kind::kNegative:
        return Arithmetic("-", Value(0), Refer(*parts[0], first), work_);
      case Kind::kAnd: {
        Value left = Evaluate(*parts[0]);
        return IsTrue(left) ? Evaluate(*parts[1]) : left;
      }
      case Kind::kOr: {
        Value left = Evaluate(*parts[0]);
        return IsTrue(left) ? left : Evaluate(*parts[1]);
      }
      case Kind::kBinary: {
        Value second;
        const Value& left = Refer(*parts[0], first);
        return Binary(expression.text, left, Refer(*parts[1], second), work_);
      }
      case Kind::kTernary:
        if (Holds(*parts[1])) {
          return Evaluate(*parts[0]);
        }
        return parts[2] == nullptr ? Undefined() : Evaluate(*parts[2]);
      case Kind::kSlice:
        return Slice(expression);
      case Kind::kCall:
        return Call(expression);
      case Kind::kFilter: {
        const Value& value = Refer(*parts[0], first);
        return ApplyFilter(expression.text, value, ArgumentsOf(expression), work_);
      }
      case Kind::kTest:
        return Test(expression);
      case Kind::kLiteral:
      case Kind::kName:
      case Kind::kAttribute:
      case Kind::kIndex:
        break;  // Refer's
    }
    return Undefined();
  }

  bool Test(const Expression& expression) {
    const Expression& subject = *expression.parts[0];
    const bool asks = expression.text == "defined" || expression.text == "undefined";
    if (asks && subject.kind == Kind::kName && IsFunction(subject.text)) {
      return expression.text == "defined";
    }
    Value made;
    const Value& value = Refer(subject, made);
    return ApplyTest(expression.text, value, ArgumentsOf(expression), work_);
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
      Value made;
      const Value& value = Refer(*callee.parts[0], made);
      return CallMethod(value, callee.text, ArgumentsOf(call), work_);
    }
    if (callee.kind != Kind::kName || !IsFunction(callee.text)) {
      work_.Refuse("calls '" + callee.text + "', which is not covered");
    }
    const Arguments arguments = ArgumentsOf(call);
    if (callee.text == "raise_exception") {
      Fail("the chat template of '{}' refuses the conversation: {}", origin_, PythonText(arguments.Get(0, "message")));
    }
    if (callee.text == "strftime_now") {
      return TimeText(PythonText(arguments.Get(0, "format")));
    }
    if (callee.text == "range") {
      return Range(arguments);
    }
    Value made = Value::object();
    for (const auto& [name, value] : arguments.named) {
      work_.TakeKeys(made.size());
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

  Value Range(const Arguments& arguments) {
    std::array<std::int64_t, 3> limits = {0, 0, 1};
    const std::size_t given = arguments.values.size();
    for (std::size_t i = 0; i < given && i < limits.size(); ++i) {
      if (!arguments.values[i].is_number_integer()) {
        work_.Refuse("gives range() something else than whole numbers");
      }
      limits[given == 1 ? 1 : i] = arguments.values[i].get<std::int64_t>();
    }
    const std::uint64_t count =
        given == 0 || given > 3 || limits[2] == 0 ? kLongestRange + 1 : CountPlaces(limits[0], limits[1], limits[2]);
    if (count > kLongestRange) {
      work_.Refuse("gives range() limits that it cannot have");
    }
    work_.Take(sizeof(Value), count);
    Value list = Value::array();
    for (std::uint64_t i = 0; i < count; ++i) {
      list.push_back(PlaceAt(limits[0], limits[2], i));
    }
    return list;
  }

  Value Slice(const Expression& slice) {
    Value sliced;
    const Value& value = Refer(*slice.parts[0], sliced);
    if (!value.is_array() && !value.is_string()) {
      work_.Refuse("slices what is neither a list nor a text");
    }
    const std::vector<Value> items = Iterate(value, work_);
    const auto length = static_cast<std::int64_t>(items.size());
    const auto limit = [&](std::size_t part) -> std::optional<std::int64_t> {
      const Value given = slice.parts[part] == nullptr ? Value(nullptr) : Evaluate(*slice.parts[part]);
      return given.is_number_integer() ? std::optional(given.get<std::int64_t>()) : std::nullopt;
    };
    const std::int64_t step = limit(3).value_or(1);
    if (step == 0) {
      work_.Refuse("slices with a step of 0");
    }
    // Python's rule: limits count from the end where they are below 0 and are cut to what there is.
    const std::int64_t lowest = step > 0 ? 0 : -1;
    const std::int64_t highest = step > 0 ? length : length - 1;
    const auto placed = [&](std::optional<std::int64_t> place, std::int64_t otherwise) {
      return place.has_value() ? std::clamp(*place < 0 ? *place + length : *place, lowest, highest) : otherwise;
    };
    const std::int64_t begin = placed(limit(1), step > 0 ? lowest : highest);
    const std::int64_t end = placed(limit(2), step > 0 ? highest : lowest);
    Value made = Value::array();
    std::string text;
    const std::uint64_t count = CountPlaces(begin, end, step);
    for (std::uint64_t i = 0; i < count; ++i) {
      const Value& item = items[static_cast<std::size_t>(PlaceAt(begin, step, i))];
      if (value.is_string()) {
        text += item.get_ref<const std::string&>();
      } else {
        made.push_back(item);
      }
    }
    return value.is_string() ? Value(text) : made;
  }

  std::vector<std::map<std::string, Value>> scopes_;
  std::time_t now_;
  const std::string& origin_;
  Rendered out_;
  Work work_;
};

}  // namespace

Rendered Render(const Block& block, std::map<std::string, Value> variables, std::time_t now,
                const std::string& origin) {
  return Renderer(std::move(variables), now, origin).Run(block);
}

}  // namespace trireme::jinja
