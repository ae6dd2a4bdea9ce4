#include "topology/settings.h"

#include <cmath>

#include "base/error.h"
#include "topology/toml_text.h"

namespace trireme {

// Turns toml++'s tree into flat values; the only code that sees it.
struct SettingsReader {
  Settings& settings;

  static Settings::Value Leaf(const toml::node& node) {
    Settings::Value value;
    value.line = static_cast<int>(node.source().begin.line);
    if (const auto* integer = node.as_integer()) {
      value.number = static_cast<double>(integer->get());
    } else if (const auto* real = node.as_floating_point()) {
      value.number = real->get();
    } else if (const auto* flag = node.as_boolean()) {
      value.kind = Settings::Kind::kFlag;
      value.number = flag->get() ? 1 : 0;
    } else if (const auto* text = node.as_string()) {
      value.kind = Settings::Kind::kText;
      value.text = text->get();
    } else {
      value.kind = Settings::Kind::kText;
      value.text = "?";
    }
    return value;
  }

  void Table(const toml::table& table, const std::string& prefix) {
    for (const auto& [key, node] : table) {
      const std::string name = prefix + std::string(key.str());
      if (const auto* inner = node.as_table()) {
        Table(*inner, name + ".");
      } else if (const auto* array = node.as_array(); array != nullptr && array->is_array_of_tables()) {
        int index = 0;
        for (const toml::node& entry : *array) {
          Table(*entry.as_table(), name + "[" + std::to_string(index++) + "].");
        }
        settings.entries_[name] = index;
      } else if (array != nullptr) {
        Settings::Value list;
        list.kind = Settings::Kind::kList;
        list.line = static_cast<int>(node.source().begin.line);
        for (const toml::node& entry : *array) {
          list.list.push_back(Leaf(entry));
        }
        settings.values_[name] = std::move(list);
      } else {
        settings.values_[name] = Leaf(node);
      }
    }
  }
};

Settings Settings::FromText(const std::string& text, const std::string& origin) {
  Settings settings;
  settings.origin_ = origin;
  try {
    const toml::table table = ParseToml(text);
    SettingsReader{settings}.Table(table, "");
  } catch (const TomlFault& fault) {
    Fail("{}, line {}: {}", origin, fault.line, fault.what());
  }
  return settings;
}

const Settings::Value* Settings::Find(const std::string& key, const char* type, Kind kind) const {
  asked_.insert(key);
  const auto found = values_.find(key);
  if (found == values_.end()) {
    return nullptr;
  }
  Require(found->second.kind == kind, "{}, line {}: '{}' must be {}", origin_, found->second.line, key, type);
  return &found->second;
}

void Settings::FailMissing(const std::string& key, const char* type) const {
  Fail("{} lacks '{}', {}", origin_, key, type);
}

bool Settings::Has(const std::string& key) const {
  asked_.insert(key);
  return values_.count(key) != 0;
}

double Settings::Number(const std::string& key) const {
  const Value* value = Find(key, "a number", Kind::kNumber);
  if (value == nullptr) {
    FailMissing(key, "a number");
  }
  Require(std::isfinite(value->number), "{}, line {}: '{}' must be finite", origin_, value->line, key);
  return value->number;
}

double Settings::Number(const std::string& key, double fallback) const { return Has(key) ? Number(key) : fallback; }

double Settings::Positive(const std::string& key) const {
  const double number = Number(key);
  Require(number > 0 && number < 1e18, "{}, line {}: '{}' = {} must be above 0 and below 1e18", origin_,
          values_.at(key).line, key, number);
  return number;
}

double Settings::Positive(const std::string& key, double fallback) const { return Has(key) ? Positive(key) : fallback; }

int Settings::Count(const std::string& key, int most) const {
  const double number = Positive(key);
  Require(number == std::floor(number) && number <= most, "{}, line {}: '{}' = {} must be a whole number of at most {}",
          origin_, values_.at(key).line, key, number, most);
  return static_cast<int>(number);
}

int Settings::CountOr(const std::string& key, int fallback) const { return Has(key) ? Count(key) : fallback; }

std::string Settings::Text(const std::string& key) const {
  const Value* value = Find(key, "a text in quotes", Kind::kText);
  if (value == nullptr) {
    FailMissing(key, "a text");
  }
  return value->text;
}

std::string Settings::Text(const std::string& key, const std::string& fallback) const {
  return Has(key) ? Text(key) : fallback;
}

bool Settings::Flag(const std::string& key, bool fallback) const {
  const Value* value = Find(key, "true or false", Kind::kFlag);
  return value == nullptr ? fallback : value->number != 0;
}

std::vector<std::string> Settings::Texts(const std::string& key) const {
  std::vector<std::string> texts;
  if (const Value* value = Find(key, "a list of texts", Kind::kList)) {
    for (const Value& entry : value->list) {
      Require(entry.kind == Kind::kText, "{}, line {}: '{}' must be a list of texts", origin_, value->line, key);
      texts.push_back(entry.text);
    }
  }
  return texts;
}

std::vector<double> Settings::Numbers(const std::string& key) const {
  std::vector<double> numbers;
  if (const Value* value = Find(key, "a list of numbers", Kind::kList)) {
    for (const Value& entry : value->list) {
      Require(entry.kind == Kind::kNumber && std::isfinite(entry.number), "{}, line {}: '{}' must be a list of numbers",
              origin_, value->line, key);
      numbers.push_back(entry.number);
    }
  }
  return numbers;
}

int Settings::Entries(const std::string& array_of_tables) const {
  const auto found = entries_.find(array_of_tables);
  return found == entries_.end() ? 0 : found->second;
}

bool Settings::HasTable(const std::string& table) const {
  const std::string prefix = table + ".";
  const auto after = values_.lower_bound(prefix);
  return after != values_.end() && after->first.starts_with(prefix);
}

void Settings::RequireAllKnown() const {
  for (const auto& [key, value] : values_) {
    if (asked_.count(key) == 0) {
      Fail("{}, line {}: unknown key '{}'{}", origin_, value.line, key, NearestMatch(key, asked_));
    }
  }
}

}  // namespace trireme
