#include "base/json_text.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"

namespace trireme {
namespace {

template <typename Json>
std::string Printed(const Json& value, const JsonStyle& style) {
  using Handler = typename Json::error_handler_t;
  return value.dump(style.indent, ' ', style.ascii,
                    style.bad_utf8 == BadUtf8::kReplace ? Handler::replace : Handler::strict);
}

// Builds the tree from what the parser sees, which does not recurse. The parser's own callbacks would go through all
// earlier members of an object at the end of each.
class Builder {
 public:
  using json = nlohmann::json;

  explicit Builder(const JsonLimits& limits) : limits_(limits) {}

  json Take() { return std::move(root_); }

  // The interface that json::sax_parse asks for.
  bool null() { return Add(nullptr); }
  bool boolean(bool value) { return Add(value); }
  bool number_integer(json::number_integer_t value) { return Add(value); }
  bool number_unsigned(json::number_unsigned_t value) { return Add(value); }
  bool number_float(json::number_float_t value, const std::string&) { return Add(value); }
  bool string(std::string& value) { return Add(std::move(value)); }
  bool binary(json::binary_t&) { return false; }
  bool start_object(std::size_t) { return Open(json::object()); }
  bool start_array(std::size_t) { return Open(json::array()); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }
  bool key(std::string& name) {
    key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception& error) { Fail("{}", error.what()); }

 private:
  bool Add(json value) {
    Place(std::move(value));
    return true;
  }

  bool Open(json value) {
    Require(static_cast<int>(open_.size()) < limits_.depth, "JSON nested deeper than {}", limits_.depth);
    open_.push_back(Place(std::move(value)));
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  json* Place(json value) {
    Require(++values_ <= limits_.values, "more than {} JSON values", limits_.values);
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      auto& items = open_.back()->get_ref<json::array_t&>();
      items.push_back(std::move(value));
      return &items.back();
    }
    auto& members = open_.back()->get_ref<json::object_t&>();
    const std::size_t before = members.size();
    json& member = members[key_];
    Require(members.size() > before || !limits_.unique_keys, "the key '{}' stands twice in one object", key_);
    member = std::move(value);
    return &member;
  }

  const JsonLimits& limits_;
  json root_;
  std::string key_;
  std::vector<json*> open_;  // objects and arrays that have not ended; none grows while one within it is open
  std::int64_t values_ = 0;
};

}  // namespace

nlohmann::json ParseJson(std::string_view text, const JsonLimits& limits) {
  Builder builder(limits);
  nlohmann::json::sax_parse(text, &builder);
  return builder.Take();
}

nlohmann::json ParseJsonOrDiscard(std::string_view text) {
  try {
    return ParseJson(text);
  } catch (const Error&) {
    return nlohmann::json(nlohmann::json::value_t::discarded);
  }
}

std::string JsonText(const nlohmann::json& value, const JsonStyle& style) { return Printed(value, style); }

std::string JsonText(const nlohmann::ordered_json& value, const JsonStyle& style) { return Printed(value, style); }

}  // namespace trireme
