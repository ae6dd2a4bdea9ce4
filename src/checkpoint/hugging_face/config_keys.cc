#include "checkpoint/hugging_face/config_keys.h"

#include <algorithm>

#include "base/error.h"
#include "base/json_text.h"
#include "checkpoint/format/bounded_json.h"

namespace trireme {

ConfigKeys::ConfigKeys(const nlohmann::json& root, const std::string& origin)
    : root_(root), origin_(origin), read_(std::make_shared<std::set<std::string>>()) {}

bool ConfigKeys::Has(const char* key) const {
  read_->insert(key);
  return root_.contains(key) && !root_[key].is_null();
}

std::int64_t ConfigKeys::Count(const char* key, std::int64_t otherwise) const {
  return Has(key) ? CountOf(root_, key, origin_) : otherwise;
}

std::int64_t ConfigKeys::Count(const char* key, const char* other) const {
  return CountOf(root_, Has(key) || !Has(other) ? key : other, origin_);
}

double ConfigKeys::Number(const char* key, double otherwise) const {
  return Has(key) ? NumberOf(root_, key, origin_) : otherwise;
}

bool ConfigKeys::Flag(const char* key, bool otherwise) const {
  return Has(key) ? FlagOf(root_, key, origin_) : otherwise;
}

std::string ConfigKeys::Text(const char* key, const char* otherwise) const {
  return Has(key) ? TextOf(root_, key, origin_) : otherwise;
}

ConfigKeys ConfigKeys::Inner(const char* key) const {
  read_->insert(key);
  return {ObjectOf(root_, key, origin_), origin_};
}

std::vector<std::string> ConfigKeys::Texts(const char* key) const {
  std::vector<std::string> texts;
  if (!Has(key)) {
    return texts;
  }
  Require(root_[key].is_array(), "'{}': '{}' is no list", origin_, key);
  for (const nlohmann::json& one : root_[key]) {
    Require(one.is_string(), "'{}': '{}' is no list of texts", origin_, key);
    texts.push_back(one.get<std::string>());
  }
  return texts;
}

std::vector<double> ConfigKeys::Numbers(const char* key) const {
  std::vector<double> numbers;
  Require(Has(key) && root_[key].is_array(), "'{}': '{}' is no list of numbers", origin_, key);
  for (const nlohmann::json& one : root_[key]) {
    Require(one.is_number(), "'{}': '{}' is no list of numbers", origin_, key);
    numbers.push_back(one.get<double>());
  }
  return numbers;
}

void ConfigKeys::RequireFlag(const char* key, bool wanted) const {
  Require(Flag(key, wanted) == wanted, "'{}': '{}' = {} is not a model that this program computes", origin_, key,
          !wanted);
}

void ConfigKeys::RequireText(const char* key, const std::vector<std::string>& wanted) const {
  const std::string value = Text(key, wanted.front().c_str());
  Require(std::find(wanted.begin(), wanted.end(), value) != wanted.end(),
          "'{}': '{}' = '{}'; this program computes '{}'", origin_, key, value, wanted.front());
}

void ConfigKeys::RequireAbsent(const char* key) const {
  if (Has(key)) {
    Fail("'{}': '{}' = {} is not a model that this program computes", origin_, key, JsonText(root_[key]));
  }
}

std::vector<std::string> ConfigKeys::Unread() const {
  std::vector<std::string> unread;
  for (const auto& [key, value] : root_.items()) {
    if (!read_->contains(key)) {
      unread.push_back(key);
    }
  }
  return unread;
}

}  // namespace trireme
