#include "base/json_text.h"

#include <nlohmann/json.hpp>

namespace trireme {
namespace {

template <typename Json>
std::string Printed(const Json& value, const JsonStyle& style) {
  using Handler = typename Json::error_handler_t;
  return value.dump(style.indent, ' ', style.ascii,
                    style.bad_utf8 == BadUtf8::kReplace ? Handler::replace : Handler::strict);
}

}  // namespace

nlohmann::json ParseJson(std::string_view text) { return nlohmann::json::parse(text); }

nlohmann::json ParseJsonOrDiscard(std::string_view text) { return nlohmann::json::parse(text, nullptr, false); }

std::string JsonText(const nlohmann::json& value, const JsonStyle& style) { return Printed(value, style); }

std::string JsonText(const nlohmann::ordered_json& value, const JsonStyle& style) { return Printed(value, style); }

}  // namespace trireme
