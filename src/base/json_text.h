// JSON to and from text. nlohmann's parser and printer are instantiated here alone: in every unit that used them they
// took the compiler 2 s and 1 s. Any thread may call these functions.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace trireme {

// What becomes of text in a value that is not UTF-8.
enum class BadUtf8 { kRefuse, kReplace };

struct JsonStyle {
  int indent = -1;                       // spaces per level; -1: all on one line
  BadUtf8 bad_utf8 = BadUtf8::kReplace;  // kRefuse throws nlohmann::json::exception
  bool ascii = false;                    // escapes every character that is not ASCII
};

// What a document may hold. Trees are copied and printed by recursion: depth costs stack.
struct JsonLimits {
  int depth = 64;  // of nested objects and arrays
  std::int64_t values = 50'000'000;
  bool unique_keys = false;  // a key twice in one object is an Error; otherwise the last one counts
};

// The document that `text` holds; an Error if it holds none or more than the limits allow. Everything in the program
// that reads JSON does so here.
nlohmann::json ParseJson(std::string_view text, const JsonLimits& limits = {});

// Like ParseJson, but returns a value of which is_discarded() is true instead of an Error.
nlohmann::json ParseJsonOrDiscard(std::string_view text);

std::string JsonText(const nlohmann::json& value, const JsonStyle& style = {});
std::string JsonText(const nlohmann::ordered_json& value, const JsonStyle& style = {});

}  // namespace trireme
