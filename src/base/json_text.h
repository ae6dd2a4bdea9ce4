// JSON to and from text. nlohmann's parser and printer are instantiated here alone: in every unit that used them they
// took the compiler 2 s and 1 s. Any thread may call these functions.
#pragma once

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

// The document that `text` holds; throws nlohmann::json::exception if it holds none. Neither depth nor size is bounded:
// for files of others there are data/files/json_file.h and checkpoint/format/bounded_json.h.
nlohmann::json ParseJson(std::string_view text);

// The same, but a value of which is_discarded() is true instead of an exception.
nlohmann::json ParseJsonOrDiscard(std::string_view text);

std::string JsonText(const nlohmann::json& value, const JsonStyle& style = {});
std::string JsonText(const nlohmann::ordered_json& value, const JsonStyle& style = {});

}  // namespace trireme
