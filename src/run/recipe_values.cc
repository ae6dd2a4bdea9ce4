// Reading, storing and checking the value of one key.
#include <algorithm>
#include <cmath>

#include "base/count_text.h"
#include "base/error.h"
#include "run/recipe_keys.h"
#include "run/users_words.h"

namespace trireme {
namespace {

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : ", ") + word;
  }
  return text;
}

[[noreturn]] void FailType(const RecipeKey& key, const RecipeValue& value, const char* wanted) {
  Fail("{} = {} must be {}", key.name, ToToml(value), wanted);
}

// Whole numbers print as such: 10000, not 10000.0 or 1e+04.
std::string Plain(double number) {
  return std::abs(number) < 1e15 && number == std::floor(number) ? fmt::format("{:.0f}", number)
                                                                 : fmt::format("{}", number);
}

void RequireRange(const RecipeKey& key, double number, const std::string& shown) {
  const double nearest = std::isnan(number) ? key.least : std::clamp(number, key.least, key.most);
  Require(number >= key.least && number <= key.most, "{} = {} must be between {} and {}; the nearest that works is {}",
          key.name, shown, Plain(key.least), Plain(key.most), Plain(nearest));
}

void RequireWord(const RecipeKey& key, const std::string& word) {
  const bool known = key.words.empty() || std::find(key.words.begin(), key.words.end(), word) != key.words.end();
  if (!known) {
    Fail("{} = {} is unknown{}; known: {}", key.name, ToToml(RecipeValue(word)), NearestMatch(word, key.words),
         Joined(key.words));
  }
}

double NumberFrom(const RecipeKey& key, const RecipeValue& value, const char* wanted) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    return static_cast<double>(*whole);
  }
  if (const auto* real = std::get_if<double>(&value)) {
    return *real;
  }
  // "2k", "300B"
  if (const auto* text = std::get_if<std::string>(&value)) {
    if (NumberWithUnit(*text)) {
      return std::stod(WithoutUnit(*text));
    }
  }
  FailType(key, value, wanted);
}

std::int64_t WholeFrom(const RecipeKey& key, const RecipeValue& value) {
  constexpr const char* kWanted = "a whole number";
  const double number = NumberFrom(key, value, kWanted);
  RequireRange(key, number, ToToml(value));
  if (number != std::floor(number)) {
    Fail("{} = {} must be a whole number, such as {:.0f}", key.name, ToToml(value), std::floor(number));
  }
  // A seed beyond 2^53 is exact as an integer only.
  const auto* whole = std::get_if<std::int64_t>(&value);
  return whole != nullptr ? *whole : static_cast<std::int64_t>(number);
}

const std::string& TextFrom(const RecipeKey& key, const RecipeValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr) {
    FailType(key, value, "text");
  }
  Require(!text->empty() || key.may_be_empty, "{} is empty", key.name);
  RequireWord(key, *text);
  return *text;
}

void Store(bool& member, const RecipeKey& key, const RecipeValue& value) {
  const auto* flag = std::get_if<bool>(&value);
  if (flag == nullptr) {
    FailType(key, value, "true or false");
  }
  member = *flag;
}
void Store(int& member, const RecipeKey& key, const RecipeValue& value) {
  member = static_cast<int>(WholeFrom(key, value));
}
void Store(std::int64_t& member, const RecipeKey& key, const RecipeValue& value) { member = WholeFrom(key, value); }
void Store(double& member, const RecipeKey& key, const RecipeValue& value) {
  const double number = NumberFrom(key, value, "a number");
  RequireRange(key, number, ToToml(value));
  member = number;
}
void Store(std::string& member, const RecipeKey& key, const RecipeValue& value) { member = TextFrom(key, value); }
RecipeValue Load(bool member) { return member; }
RecipeValue Load(int member) { return static_cast<std::int64_t>(member); }
RecipeValue Load(std::int64_t member) { return member; }
RecipeValue Load(double member) { return member; }
RecipeValue Load(const std::string& member) { return member; }

std::string QuotedText(const std::string& text) {
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') {
      quoted += '\\';
      quoted += letter;
    } else if (static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f) {
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(static_cast<unsigned char>(letter)));
    } else {
      quoted += letter;
    }
  }
  return quoted + '"';
}

std::string RealText(double number) {
  if (!std::isfinite(number)) {
    return fmt::format("{}", number);
  }
  const std::string text = fmt::format("{}", number);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

}  // namespace

const RecipeKey* FindRecipeKey(const std::string& name) {
  for (const RecipeKey& key : RecipeKeys()) {
    if (key.name == name) {
      return &key;
    }
  }
  return nullptr;
}

std::string NearestKey(const std::string& name) {
  if (std::string reason = ReasonAgainst(name); !reason.empty()) {
    return reason;
  }
  const std::string last = "." + name.substr(name.rfind('.') + 1);
  std::vector<std::string> names;
  for (const RecipeKey& key : RecipeKeys()) {
    // Under another table, or not written to its end.
    if (key.name.ends_with(last) || key.name.starts_with(name)) {
      return " (did you mean '" + key.name + "'?)";
    }
    names.push_back(key.name);
  }
  if (const std::string meant = KeyOfUsersWord(name); !meant.empty()) {
    return " (did you mean '" + meant + "'?)";
  }
  names.emplace_back("model.preset");
  return NearestMatch(name, names);
}

void SetKey(RunConfig& config, const RecipeKey& key, const RecipeValue& value) {
  std::visit(
      [&](auto member) {
        if constexpr (std::is_same_v<decltype(member), WordMember>) {
          member.set(config, TextFrom(key, value));
        } else {
          Store(member(config), key, value);
        }
      },
      key.member);
}

RecipeValue GetKey(const RunConfig& config, const RecipeKey& key) {
  // Members are reached through references to a changeable config only.
  RunConfig copy = config;
  return std::visit(
      [&](auto member) -> RecipeValue {
        if constexpr (std::is_same_v<decltype(member), WordMember>) {
          return member.get(copy);
        } else {
          return Load(member(copy));
        }
      },
      key.member);
}

void RequireSensible(const RunConfig& config, const RecipeKey& key) {
  RunConfig copy = config;
  SetKey(copy, key, GetKey(config, key));
}

std::string ToToml(const RecipeValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) {
    return *flag ? "true" : "false";
  }
  if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    return fmt::format("{}", *whole);
  }
  if (const auto* real = std::get_if<double>(&value)) {
    return RealText(*real);
  }
  return QuotedText(std::get<std::string>(value));
}

}  // namespace trireme
